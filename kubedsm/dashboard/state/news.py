"""What is news: decisions, what became of moves, Events, and what is in another state now."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kubedsm.dashboard.rows import MoveRow, NewsRow, NodeRow, StatusRow
from kubedsm.dashboard.state.headline import line_of, moved_from_to, new_pods, sites_in
from kubedsm.dashboard.state.kept_rows import Difference
from kubedsm.explain.entries import Entry, Kind, Outcome, PodChoice
from kubedsm.kube.calls.writes import Regarding
from kubedsm.model.model import Pod, Uid
from kubedsm.planner.plurals import named

#: Events of one reason that are told one by one; more of them at once are told as one
_FEW = 3


class Told(NamedTuple):
    """An Event that was written."""

    at: float
    about: Regarding
    reason: str
    note: str
    warning: bool


def of_decisions(entries: Sequence[Entry], pods: Mapping[Uid, Pod]) -> Iterator[NewsRow]:
    """What was decided, oldest first; many batches are told as one. `pods`: those there are now."""
    batches = [entry for entry in entries if entry.kind is Kind.BATCH]
    for one in [[each] for each in batches] if len(batches) <= _FEW else [batches]:
        choices = [choice for entry in one for choice in entry.pods]
        workloads = {str(pods[c.uid].workload) for c in choices if c.uid in pods}
        yield NewsRow(
            at=one[-1].at,
            kind="batch",
            text=_placed(choices),
            workload=workloads.pop() if len(workloads) == 1 else "",
            pod=choices[0].pod if len(choices) == 1 else "",
            node=choices[0].node or "" if len(choices) == 1 else "",
            decision=one[-1].number,
            warning=any(choice.node is None for choice in choices),
        )
    for entry in entries:
        if entry.kind is Kind.SUGGESTION:
            text = _suggested(entry)
            yield NewsRow(at=entry.at, kind="suggestion", text=text, decision=entry.number)


def _suggested(entry: Entry) -> str:
    proposes = any(move.outcome is Outcome.PROPOSED for move in entry.moves)
    moves = {move.move.pod.uid: move.move for move in entry.moves}
    said = "would move" if proposes else "decided to move"
    if len(moves) == 1:
        (move,) = moves.values()
        return f"{said} {move.pod} from {move.source} to {move.target}"
    return f"{said} {len(moves)} pods: {named([str(move.pod) for move in moves.values()])}"


def _placed(choices: Sequence[PodChoice]) -> str:
    here = [choice for choice in choices if choice.node is not None]
    lost = [choice for choice in choices if choice.node is None]
    said = []
    if len(here) == 1:
        said.append(f"placed {here[0].pod} on {here[0].node}")
    elif here:
        tiers = Counter(choice.tier for choice in here if choice.tier is not None)
        said.append(f"placed {new_pods(tiers)}")
    if lost:
        who = lost[0].pod if len(lost) == 1 else f"{len(lost)} pods"
        said.append(f"no node takes {who}: {lost[0].message}")
    return "; ".join(said)


def of_move(key: str, before: MoveRow | None, after: MoveRow | None) -> Iterator[NewsRow]:
    """What became of a move since."""
    if after is None or after.state in ("proposed", "planned", before and before.state):
        return
    text = line_of(after)
    if after.state == "dropped":
        text = f"not moved: {moved_from_to(after)} ({after.reason})"
    yield NewsRow(
        at=after.ended or after.began,
        kind="move",
        text=text,
        workload=after.workload,
        pod=after.replacement if after.state == "completed" else after.pod,
        node=after.target,
        move=key,
        decision=after.decision,
        warning=after.state in ("failed", "taken back"),
    )


def of_events(told: Sequence[Told]) -> Iterator[NewsRow]:
    """Events, a row each; many of one reason are told as one."""
    by_reason = defaultdict[str, list[Told]](list)
    for each in told:
        by_reason[each.reason].append(each)
    for reason, several in by_reason.items():
        for each in several if len(several) <= _FEW else ():
            yield _of_event(each, f"{reason}: {each.note}")
        if len(several) > _FEW:
            last = several[-1]
            text = f"{reason} of {len(several)} {last.about.kind}s, the last: {last.note}"
            yield NewsRow(at=last.at, kind="event", text=text, warning=last.warning)


def _of_event(told: Told, text: str) -> NewsRow:
    about = f"{told.about.namespace}/{told.about.name}"
    pod = about if told.about.kind == "Pod" else ""
    workload = about if told.about.api_version == "apps/v1" else ""
    return NewsRow(
        at=told.at, kind="event", text=text, pod=pod, workload=workload, warning=told.warning
    )


_SITES = {
    "cut off": "site {} is cut off: what runs on {} is left alone",
    "settling": "site {} is back: {}",
}
_STATES = {
    "cordoned": "node {} is cordoned",
    "not ready": "node {} is not ready",
    "unreachable": "node {} is unreachable",
}


def of_nodes(changed: Mapping[str, Difference[NodeRow]], at: float) -> Iterator[NewsRow]:
    """Which came and went, and which are in another state; of sites, as one."""
    before = {name: was for name, (was, _) in changed.items() if was is not None}
    after = {name: now for name, (_, now) in changed.items() if now is not None}
    for state, text in _SITES.items():
        there = sites_in(before, state)
        for site, names in sites_in(after, state).items():
            if site not in there:
                said = text.format(site, named(sorted(names)))
                yield _state(said, at, warning=state == "cut off")
    for name, (was, now) in changed.items():
        if now is None:
            yield _state(f"node {name} is gone", at, name, warning=True)
        elif was is None:
            yield _state(f"node {name} has joined", at, name)
        elif was.state != now.state and now.state in _STATES:
            warns = now.state != "cordoned"
            yield _state(_STATES[now.state].format(name), at, name, warning=warns)
        elif was.state and not now.state:
            yield _state(f"node {name} takes pods again", at, name)


def of_status(before: StatusRow, after: StatusRow, at: float) -> Iterator[NewsRow]:
    """What is another matter for the scheduler itself."""
    if before.role != after.role or before.leader != after.leader:
        leads = "this scheduler leads" if after.role == "leading" else ""
        leads = leads or (f"{after.leader} leads" if after.leader else "nobody is known to lead")
        yield _state(leads, at, warning=after.role == "standby" and not after.leader)
    if before.paused != after.paused:
        yield _state("moves are paused" if after.paused else "moves may be made again", at)
    if before.generation != after.generation:
        yield _state("another configuration is in force", at)
    if after.refusal and before.refusal != after.refusal:
        yield _state(f"the configuration is refused: {after.refusal}", at, warning=True)


def _state(text: str, at: float, node: str = "", *, warning: bool = False) -> NewsRow:
    return NewsRow(at=at, kind="state", text=text, node=node, warning=warning)
