"""Why a pod is where it is, or what it waits for."""

from collections.abc import Callable, Iterator, Sequence

import attrs

from kubedsm.dashboard.answers.answer import (
    Answer,
    Link,
    Section,
    Words,
    decision_link,
    listed,
    moment,
    move_link,
    node_link,
    percent,
    workload_link,
)
from kubedsm.dashboard.answers.verdicts import fits, rule_of, rules_told, verdicts
from kubedsm.dashboard.state.moves import key_of
from kubedsm.explain.answers import Explainer
from kubedsm.explain.entries import Entry, MoveOutcome, Outcome
from kubedsm.explain.explainer import Decisions, Recalled
from kubedsm.explain.explanation import NodeAnswer
from kubedsm.model.model import NodeName, Pod, Share, Tier, Uid
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import count_target_pods
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.planner.plurals import counted
from kubedsm.planner.what_if import describe_purpose
from kubedsm.plugins.fit import count_reasons
from kubedsm.plugins.plugin import Rejection

FORGOTTEN = (
    "What was decided about it is not remembered: that was before this process began to decide,"
    " or too many decisions ago."
)


def about_pod(decisions: Decisions, name: str) -> Callable[[], Answer] | None:
    """How to tell of the pod in any thread; None if nothing is known of one of that name."""
    uid = decisions.uid_of(name)
    if uid is None:
        return None
    moves = decisions.record.moves().get(uid, [])
    return _About(
        name,
        uid,
        decisions.mirror.snapshot(),
        decisions.policy(),
        decisions.recall(uid, name),
        tuple(moves),
        decisions,
    ).told


@attrs.frozen(slots=True)
class _About:
    """A pod, and all that is known of it, as values."""

    name: str
    uid: Uid
    snapshot: Snapshot
    policy: KubeDSM
    recalled: Recalled | None
    moves: Sequence[tuple[float, MoveOutcome]]
    #: only explains what it is handed
    decisions: Decisions

    def told(self) -> Answer:
        pod = self.snapshot.pods.get(self.uid)
        if pod is None:
            return self._of_one_gone()
        if pod.scheduler_name != self.snapshot.scheduler_name:
            return self._of_another(pod)
        node = self.snapshot.placed.get(pod.uid)
        if node is None:
            return self._of_one_waiting(pod)
        return self._of_one_placed(pod, node)

    def _answer(
        self, title: str, lines: Sequence[Words], nodes: Sequence[NodeAnswer], when: str
    ) -> Answer:
        return Answer(title, (*lines, *self._moved()), tuple(self._sections(nodes, when)))

    def _sections(self, nodes: Sequence[NodeAnswer], when: str) -> Iterator[Section]:
        yield from verdicts(nodes, when)
        recalled = self.recalled
        if recalled is not None and recalled.summary:
            yield Section("As its Event says", ((recalled.summary,),), folded=True)

    def _of_one_gone(self) -> Answer:
        chosen = self.recalled and self.recalled.chosen
        lines: list[Words] = [(f"{self.name} is gone.",)]
        if chosen:
            where = ("put it on ", node_link(chosen.node)) if chosen.node else ("found no node",)
            lines.append((*_decided(chosen.entry), " ", *where, "."))
        return self._answer(f"What became of {self.name}", lines, self._nodes_then(), _THEN)

    def _of_another(self, pod: Pod) -> Answer:
        said = Explainer(self.snapshot, self.policy).explain_now(pod)
        where: Words = (" waits",) if said.chosen is None else (" is on ", node_link(said.chosen))
        lines: list[Words] = [
            (self.name, *where, f", and KubeDSM leaves it alone: its scheduler is {said.left_to}."),
            (f"To opt in, {said.opt_in}.",),
        ]
        return self._answer(_title(pod, said.chosen), lines, said.nodes, _NOW)

    def _of_one_waiting(self, pod: Pod) -> Answer:
        said = Explainer(self.snapshot, self.policy).explain_now(pod)
        if pod.finished:
            return self._answer(_title(pod, None), [(f"{self.name} has finished.",)], (), _NOW)
        recalled, able = self.recalled, [node for node in said.nodes if fits(node)]
        lines: list[Words] = []
        if pod.terminating:
            lines.append((f"{self.name} is being deleted, and had no node yet.",))
        elif pod.gated:
            gates = " and ".join(pod.gates) or "its scheduling gates"
            lines.append((f"{self.name} waits until {gates} is removed: it is gated.",))
        elif able:
            links = listed([node_link(node.node) for node in able])
            tried = "tried again soon" if recalled else "about to be decided on"
            lines.append((self.name, " waits; ", *links, f" would take it now: it is {tried}."))
        else:
            why = rules_told(map(rule_of, said.nodes))
            told = f"it is rejected by {why}" if why else "there are no nodes"
            lines.append((f"{self.name} waits for a node: {told}.",))
        if message := said.message or (recalled and recalled.chosen.message):
            lines.append((message,))
        if recalled is not None:
            lines.append((*_decided(recalled.chosen.entry), " was the last to look for a node."))
        if recalled is not None and recalled.packing:
            lines.append((f"Packing: {recalled.packing}.",))
        return self._answer(_title(pod, None), lines, said.nodes, _NOW)

    def _of_one_placed(self, pod: Pod, node: NodeName) -> Answer:
        recalled, nodes = self.recalled, self._nodes_then()
        entry = recalled.chosen.entry if recalled and recalled.chosen.node == node else None
        tier = _tier(self.snapshot, node)
        on = "on its way to" if pod.node_name is None else "on"
        where: Words = (f"{self.name} is {on} ", node_link(node), f", {tier} node" * bool(tier))
        lines: list[Words] = []
        if recalled is None or entry is None:
            said = Explainer(self.snapshot, self.policy).explain_now(pod)
            lines += [(*where, "."), (FORGOTTEN,)]
            nodes, when = said.nodes, _NOW
        else:
            why = self._why_there(pod, recalled, nodes)
            lines += [(*where, *((": ", *why) if why else ()), ".")]
            lines.append((*_decided(entry), " put it there", _beside(entry), "."))
            when = _THEN
            if recalled.basis is None:
                lines.append(("What that was decided on is not kept any more.",))
        if pod.terminating:
            lines.append(("It is being deleted.",))
        return self._answer(_title(pod, node), lines, nodes, when)

    def _nodes_then(self) -> tuple[NodeAnswer, ...]:
        """What each node was for it when it was decided on, if that is still known."""
        if self.recalled is None:
            return ()
        [said] = self.decisions.explain([self.recalled])
        return said.nodes

    def _why_there(self, pod: Pod, recalled: Recalled, nodes: Sequence[NodeAnswer]) -> Words:
        """What speaks for its node, in a clause; nothing if that is forgotten."""
        chosen, basis = recalled.chosen, recalled.basis
        if chosen.move is not None:
            move, purpose = chosen.move, chosen.move.purpose
            if basis is not None:
                beside = [outcome.move for outcome in chosen.entry.moves]
                promises = self.policy.qos_targets_in(basis.snapshot)
                purpose = describe_purpose(move, beside, basis.shares_before, promises)
            source = (" on ", node_link(move.source)) if move.source else ()
            return (f"it took the place of {move.pod}", *source, f", {purpose}")
        if basis is None or pod.workload not in basis.shares_after:
            return ()
        share = basis.shares_before.get(pod.workload, Share())
        total = basis.shares_after[pod.workload].total
        promise = self.policy.qos_targets_in(basis.snapshot)(pod.workload)
        wanted = count_target_pods(promise.qos, total)
        of = f"{wanted} of its {counted(total, 'pod')} at the edge ({percent(promise.qos)})"
        workload = workload_link(pod.workload)
        if _tier(basis.snapshot, chosen.node) == _EDGE:
            if share.edge < wanted:
                return (workload, f" is promised {of} and had {share.edge}")
            return ("there was room, though ", workload, f" is promised no more than {of}")
        edge = [node for node in nodes if node.tier is Tier.EDGE]
        able = [node for node in edge if fits(node)]
        if edge and not able:
            told = {n.node: Rejection(n.rule, n.reasons) for n in edge if n.rule}
            return (f"no edge node took it ({count_reasons(told)})",)
        if share.edge >= wanted and edge:
            return (workload, f" is promised {of} and had {share.edge}")
        if able:
            had = f" is promised {of}, and had {share.edge}"
            return (f"{counted(len(able), 'edge node')} would have taken it alone; ", workload, had)
        return ()

    def _moved(self) -> Iterator[Words]:
        """The moves that brought it, or take it away."""
        for at, outcome in self.moves:
            move = outcome.move
            taken = move.pod.uid == self.uid
            link = move_link(key_of(outcome), "A move" if taken else f"The move of {move.pod}")
            words: Words = (link, f" to {move.target} ")
            if outcome.outcome is Outcome.PLANNED:
                words += ("takes it away" if taken else "brings it",)
            elif outcome.outcome is Outcome.PROPOSED:
                words += ("is proposed",)
            else:
                words += (outcome.outcome.value,)
            words += (", decided on at ", moment(at))
            yield (*words, f": {outcome.reason or move.purpose}.")


_NOW, _THEN = "as they are now", "when it was decided on"
_EDGE = "an edge"


def _tier(snapshot: Snapshot, name: str | None) -> str:
    node = snapshot.nodes.get(NodeName(name or ""))
    if node is None or node.tier is None:
        return ""
    return _EDGE if node.tier is Tier.EDGE else "a cloud"


def _title(pod: Pod, node: str | None) -> str:
    return f"Why {pod} waits" if node is None else f"Why {pod} is on {node}"


def _decided(entry: Entry) -> tuple[str | Link, ...]:
    number = decision_link(entry.number)
    return Link(number.kind, number.key, number.text.capitalize()), " at ", moment(entry.at)


def _beside(entry: Entry) -> str:
    others = len(entry.pods) + len(entry.moves) - 1
    return f", decided on together with {others} more" if others else ""
