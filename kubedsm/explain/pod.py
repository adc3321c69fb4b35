"""Explanation of a pod: why the scheduler chose the pod's node, or why the pod is pending."""

from collections.abc import Iterator

from kubedsm.explain.explanation import (
    Explanation,
    Link,
    Section,
    Words,
    decision_link,
    join_links,
    link,
    moment,
)
from kubedsm.explain.facts import MigrationFacts, PodFacts
from kubedsm.explain.verdicts import (
    count_rejections,
    is_feasible,
    rejected_by,
    verdict_sections,
)
from kubedsm.model.model import Pod, Tier

NOT_RECORDED = (
    "The decision about it is not recorded: it is older than this process, or too many decisions"
    " were made since."
)
_WHEN = {"decision": "at the time of the decision", "now": "as they are now"}
#: controllers with automatic pod replacement after template changes
_ROLLED_OUT = ("Deployment", "StatefulSet", "DaemonSet")


def pod_state(pod: Pod, node: str | None) -> str:
    """Return the pod's state as a word like `waiting`; `node`: the assigned or reserved node."""
    if pod.finished:
        return "finished"
    if node is not None:
        return "binding" if pod.node_name is None else "placed"
    return "gated" if pod.gated else "waiting"


def facts_of_other_scheduler(pod: Pod, ours: str) -> PodFacts:
    """Return the facts of another scheduler's pod, without verdicts; ours: our schedulerName."""
    return PodFacts(
        pod=str(pod),
        nodes=(),
        chosen=pod.node_name,
        bound=pod.node_name is not None,
        left_to=pod.scheduler_name,
        opt_in=_opt_in(pod, ours),
        state=pod_state(pod, pod.node_name),
    )


def _opt_in(pod: Pod, ours: str) -> str:
    """Describe how a pod's owner can use this scheduler: schedulerName of pods is immutable."""
    owner = f"{pod.workload.kind} {pod.workload}"
    if pod.workload.kind == "Pod":
        return f"recreate the pod with spec.schedulerName: {ours}"
    line = f"spec.template.spec.schedulerName: {ours}"
    if pod.workload.kind in _ROLLED_OUT:
        return f"set {line} in {owner}; it then replaces its pods"
    return f"set {line} in the source of {owner}; it applies to pods created afterwards"


def explain_pod(facts: PodFacts) -> Explanation[PodFacts]:
    lines = (
        *_describe_pod(facts),
        *map(_migration_line, facts.moves, [facts.pod] * len(facts.moves)),
    )
    sections = [*verdict_sections(facts.nodes, _WHEN.get(facts.nodes_as_of or "", "in the dump"))]
    if facts.summary and facts.recorded:  # a sentence repeats an Event's reason
        sections.append(Section("Reason in its Event", ((facts.summary,),), folded=True))
    return Explanation(_make_title(facts), lines, tuple(sections), facts)


def _make_title(facts: PodFacts) -> str:
    if facts.gone or facts.state == "finished":
        return f"State of {facts.pod}"
    return f"Why {facts.pod} is on {facts.chosen}" if _has_node(facts) else f"Why {facts.pod} waits"


def _has_node(facts: PodFacts) -> bool:
    return facts.state in ("placed", "binding") or (facts.bound and facts.chosen is not None)


def _describe_pod(facts: PodFacts) -> Iterator[Words]:
    if facts.gone:
        yield (f"{facts.pod} is gone.",)
        if facts.decided_at:
            where = ("chose ", link("node", facts.chosen)) if facts.chosen else ("found no node",)
            yield (*_link_decision(facts), " ", *where, ".")
    elif facts.state == "finished":
        yield (f"{facts.pod} has finished.",)
    elif facts.left_to is not None:
        yield from _lines_of_other_scheduler(facts)
    elif _has_node(facts):
        yield from _lines_of_placed(facts)
    else:
        yield from _lines_of_waiting(facts)


def _lines_of_other_scheduler(facts: PodFacts) -> Iterator[Words]:
    where: Words = (" is on ", link("node", facts.chosen)) if facts.chosen else (" waits",)
    left = f": its schedulerName is {facts.left_to}, so KubeDSM leaves it alone."
    yield (facts.pod, *where, left)
    if facts.message:
        yield (facts.message,)
    yield (f"To opt in, {facts.opt_in}.",)


def _lines_of_waiting(facts: PodFacts) -> Iterator[Words]:
    feasible = [node for node in facts.nodes if is_feasible(node)]
    if facts.terminating:
        yield (f"{facts.pod} is being deleted before it got a node.",)
    elif facts.state == "gated":
        gates = " and ".join(facts.gates) or "its scheduling gates"
        are = "are" if facts.gates[1:] else "is"
        yield (f"{facts.pod} is gated: it waits until {gates} {are} removed.",)
    elif facts.awaits:
        yield (f"{facts.pod} {facts.awaits}. Afterwards it starts in the cloud.",)
    elif feasible:
        links = join_links([link("node", node.node) for node in feasible])
        tried = "it is retried soon" if facts.decided_at else "no decision was made yet"
        yield (f"{facts.pod} waits, and ", *links, f" would accept it now: {tried}.")
        if facts.chosen:
            yield ("It would be scheduled to ", link("node", facts.chosen), " now.")
    else:
        why = count_rejections(map(rejected_by, facts.nodes))
        if not why and not (facts.recorded and facts.nodes_as_of is None):
            why = "there are no nodes"
        yield (f"{facts.pod} waits for a node{why and f': {why}'}.",)
    if facts.message:
        yield (facts.message,)
    if facts.decided_at:
        yield (*_link_decision(facts), " was the last attempt.")
    if facts.packing:
        yield (f"Packing: {facts.packing}.",)


def _lines_of_placed(facts: PodFacts) -> Iterator[Words]:
    on = "on its way to" if facts.state == "binding" else "on"
    tier = {Tier.EDGE: ", an edge node", Tier.CLOUD: ", a cloud node"}
    where = link("node", facts.chosen or "")
    because = (": ", *facts.reason) if facts.reason else ()
    yield (f"{facts.pod} is {on} ", where, tier[facts.tier] if facts.tier else "", *because, ".")
    if facts.state == "binding" and facts.message:
        yield (facts.message,)
    if facts.decided_at and facts.recorded:
        others = f", a decision about {facts.others + 1} pods," if facts.others else ""
        yield (*_link_decision(facts), f"{others} scheduled it there.")
        if not facts.nodes:
            yield ("The input of that decision is no longer kept.",)
    elif facts.decided_at and facts.summary:
        yield ("Its Event at ", moment(facts.decided_at), f" says: {facts.summary}.")
    elif facts.recorded:
        yield (NOT_RECORDED,)
    if facts.migration:
        yield (facts.migration,)
    if facts.terminating:
        yield ("It is being deleted.",)


def _link_decision(facts: PodFacts) -> Words:
    at = moment(facts.decided_at or "")
    if facts.decision is None:
        return ("The Event at ", at)
    return (decision_link(facts.decision, "Decision"), " at ", at)


def _migration_line(move: MigrationFacts, pod: str) -> Words:
    """Describe the migration that created the pod as replacement, or that migrated the pod."""
    removes = move.pod == pod
    why = f": {move.reason or move.purpose}"
    if not move.id:
        return (f"Event {move.outcome} at ", moment(move.at), f"{why}.")
    named = Link("move", move.id, "A migration" if removes else f"The migration of {move.pod}")
    done = {
        "planned": "removes it" if removes else "creates it",
        "proposed": "is proposed",
        "dropped": "was dropped",
        "rolled back": "was rolled back",
    }
    helped = f"; {move.helped}" if move.helped else ""
    outcome = done.get(move.outcome, move.outcome)
    return named, f" to {move.target} {outcome}, decided at ", moment(move.at), f"{why}{helped}."
