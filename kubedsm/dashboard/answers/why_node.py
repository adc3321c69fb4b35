"""What a node holds and has free, which promises it serves, and whom it has rejected lately."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

import attrs

from kubedsm.dashboard.answers.answer import (
    Answer,
    Section,
    Words,
    amount,
    decision_link,
    moment,
    move_link,
    node_link,
    percent,
    pod_link,
    table,
    workload_link,
)
from kubedsm.dashboard.rows import Row
from kubedsm.dashboard.state.moves import key_of, state_of
from kubedsm.dashboard.state.values import node_row
from kubedsm.explain.answers import Explainer
from kubedsm.explain.decision_record import Basis
from kubedsm.explain.entries import Entry, MoveOutcome
from kubedsm.explain.explainer import Decisions, decided
from kubedsm.model.measured import Usage
from kubedsm.model.model import Node, NodeName, Pod, Resources, Tier, Workload
from kubedsm.model.sites import Away, site_of
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import count_target_pods
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.planner.plurals import counted

#: decisions that are looked through, pods of one that are asked about, and rows that are shown
_LOOKED_THROUGH, _ASKED, _SHOWN = 16, 20, 10


def about_node(
    decisions: Decisions,
    name: str,
    away: Away,
    site_labels: Sequence[str],
    moves: Mapping[str, Row | None],
) -> Callable[[], Answer] | None:
    """How to tell of the node in any thread; None if there is none of that name. `moves`: rows."""
    snapshot, record = decisions.mirror.snapshot(), decisions.record
    node = snapshot.nodes.get(NodeName(name))
    if node is None:
        return None
    based = ((entry, record.basis(entry)) for entry in record.newest_first())
    return _About(
        node,
        snapshot,
        decisions.policy(),
        away,
        tuple(site_labels),
        tuple(islice(((e, b) for e, b in based if b is not None), _LOOKED_THROUGH)),
        [(at, o, state_of(o, moves)) for at, o in islice(_moves(decisions, name), _SHOWN)],
    ).told


def _moves(decisions: Decisions, name: str) -> Iterator[tuple[float, MoveOutcome]]:
    """Those from there and to there, newest first."""
    for entry in decisions.record.newest_first():
        for outcome in entry.moves:
            if name in (outcome.move.source, outcome.move.target):
                yield entry.at, outcome


@attrs.frozen(slots=True)
class _About:
    """A node, and all that is known of it, as values."""

    node: Node
    snapshot: Snapshot
    policy: KubeDSM
    away: Away
    site_labels: tuple[str, ...]
    decided: Sequence[tuple[Entry, Basis]]
    moves: Sequence[tuple[float, MoveOutcome, str]]

    def told(self) -> Answer:
        return Answer(f"What {self.node.name} does", tuple(self._lines()), tuple(self._sections()))

    def _lines(self) -> Iterator[Words]:
        node, snapshot = self.node, self.snapshot
        state = node_row(node, Usage(), self.away, self.site_labels).state
        site = site_of(node, self.site_labels)
        what = f"{_tier(node)}{f' of site {site}' if site else ''}"
        held = counted(sum(map(len, self._pods.values())), "pod")
        yield (f"{node.name} is {what}; it holds {held}, and {self._free('cpu', 'memory')}.",)
        if state:
            yield (f"It takes no pods now: it is {state}.",)
        others = [
            name for name, number in node.allocatable.items() if number and name not in _USUAL
        ]
        yield (f"Beside that {self._free('pods', *others)}.",)
        used = snapshot.measured.nodes.get(node.name, Usage())
        measured = [
            f"{amount(name, round(number))} ({percent(number / size)})"
            for name, number, size in (
                ("cpu", used.cpu, node.allocatable.cpu),
                ("memory", used.memory, node.allocatable.memory),
            )
            if number is not None and size
        ]
        if measured:
            yield (f"In use, as measured: {' and '.join(measured)}.",)

    def _free(self, *names: str) -> str:
        """What can still be requested of it."""
        free, size = self.snapshot.free.get(self.node.name, Resources()), self.node.allocatable
        told = [amount(name, max(0, free.amount(name)), size.amount(name)) for name in names]
        return f"{' and '.join(told)} are free to be requested"

    @property
    def _pods(self) -> dict[Workload, list[Pod]]:
        """What it holds, and what is on its way to it."""
        found = defaultdict[Workload, list[Pod]](list)
        for uid, name in self.snapshot.placed.items():
            pod = self.snapshot.pods.get(uid)
            if name == self.node.name and pod is not None and not pod.finished:
                found[pod.workload].append(pod)
        return dict(sorted(found.items()))

    def _sections(self) -> Iterator[Section]:
        headings = ("workload", "pods", "request", "its promise")
        held = (
            (
                workload_link(workload),
                str(len(pods)),
                _requested(pods),
                self._promise(workload, pods),
            )
            for workload, pods in self._pods.items()
        )
        yield Section("What it holds", table=table(headings, held))
        rejected = list(islice(self._rejected(), _SHOWN))
        yield Section(
            "Rejected by it lately",
            () if rejected else (("None of the pods of the last decisions.",),),
            table(("when", "pod", "rule", "decision"), rejected),
        )
        if self.moves:
            rows = (
                (
                    (moment(at),),
                    move_link(key_of(outcome), str(outcome.move.pod)),
                    self._route(outcome),
                    state,
                )
                for at, outcome, state in self.moves
            )
            yield Section(
                "Moves from it and to it",
                table=table(("decided", "pod", "route", "state"), rows),
            )

    def _route(self, outcome: MoveOutcome) -> Words:
        move = outcome.move
        if move.target == self.node.name:
            return ("here from ", node_link(move.source)) if move.source else ("here",)
        return ("to ", node_link(move.target))

    def _promise(self, workload: Workload, pods: Sequence[Pod]) -> str:
        share = self.snapshot.shares().get(workload)
        if share is None:
            return f"none: its scheduler is {pods[0].scheduler_name}"
        qos = self.policy.qos_targets_in(self.snapshot)(workload).qos
        wanted = count_target_pods(qos, share.total)
        kept = "kept" if share.edge >= wanted else f"{wanted - share.edge} missing"
        return f"{wanted} of {share.total} at the edge ({percent(qos)}): {kept}"

    def _rejected(self) -> Iterator[tuple[Words, ...]]:
        """Pods that it would not take when they were decided on: of each workload the last."""
        told = set[tuple[Workload, str]]()
        for entry, basis in self.decided:
            if self.node.name not in basis.snapshot.nodes:
                continue
            explainer = Explainer(decided(basis, entry), self.policy, basis.looked_at)
            for choice in entry.pods[:_ASKED]:
                pod = basis.snapshot.pods.get(choice.uid)
                if pod is None or choice.node == self.node.name:
                    continue
                plain = basis.plain and choice.node is not None
                rejection = explainer.rejections(choice.uid, plain=plain).get(self.node.name)
                if rejection is None or (pod.workload, rejection.rule) in told:
                    continue
                told.add((pod.workload, rejection.rule))
                why = f"{rejection.rule}: {', '.join(rejection.reasons)}"
                number = decision_link(entry.number)
                yield (moment(entry.at),), (pod_link(choice.pod),), (why,), (number,)


_USUAL = {"cpu", "memory", "pods"}


def _tier(node: Node) -> str:
    if node.tier is None:
        return "neither an edge nor a cloud node, so KubeDSM puts nothing there"
    return "an edge node" if node.tier is Tier.EDGE else "a cloud node"


def _requested(pods: Sequence[Pod]) -> str:
    cpu, memory = sum(p.requests.cpu for p in pods), sum(p.requests.memory for p in pods)
    return f"{amount('cpu', cpu)}, {amount('memory', memory)}"
