"""What the running scheduler says of a pod: what was chosen for it, when, and why.

Nodes are judged by what the decision was made on, with the other pods of that decision where it
put them: the room that the rest of a batch took is a reason, too.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import attrs
import msgspec

from kubedsm.explain.answers import Explainer, pending
from kubedsm.explain.decision_record import Basis, Chosen, DecisionRecord
from kubedsm.explain.entries import Entry, MoveOutcome, called, rfc3339
from kubedsm.explain.explanation import Explanation, MoveAnswer
from kubedsm.explain.opt_in import left_alone
from kubedsm.explain.pending_pods import PendingPods
from kubedsm.explain.qos_targets import Promised, promised
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import NodeName, Pod, Uid
from kubedsm.model.snapshot import Snapshot
from kubedsm.optimizer.moving.suggestion import Cause
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.optimizer.programming.in_order import describe_unproven
from kubedsm.plugins.fit import count_reasons


@attrs.frozen(slots=True)
class Recalled:
    """All that is known of a pod, as a value: to be explained where there is the time."""

    uid: Uid
    pod: str
    chosen: Chosen
    #: what it was decided on, if that is still kept
    basis: Basis | None
    bound: bool
    moves: tuple[MoveAnswer, ...] = ()
    summary: str = ""
    packing: str = ""
    gone: bool = False


@attrs.define
class Decisions:
    """The record, read together with what the pods are now."""

    record: DecisionRecord
    mirror: ClusterMirror
    policy: Callable[[], KubeDSM]
    #: of the entry that was asked about last: pods of one batch are asked about in a row
    _explainer: tuple[int, Explainer] | None = attrs.field(default=None, init=False)

    def named(self, name: str) -> dict[Uid, str]:
        """The pods of that name, or namespace and name, that are there or were decided about.

        Of several that had one name after the other, the one that is there, or was the last.
        """
        found: dict[str, Uid] = {}
        for pod in self.mirror.snapshot().pods.values():
            if called(str(pod), name):
                found[str(pod)] = pod.uid
        for entry in self.record.newest_first():
            for uid, full_name in entry.about():
                if called(full_name, name):
                    found.setdefault(full_name, Uid(uid))
        return {uid: full_name for full_name, uid in sorted(found.items())}

    def uid_of(self, full_name: str) -> Uid | None:
        """Of the pod of that namespace and name; if it is gone, of the last that was decided on."""
        namespace, _, name = full_name.partition("/")
        for uid, pod in self.mirror.snapshot().pods.items():
            if pod.name == name and pod.namespace == namespace:
                return uid
        about = (each for entry in self.record.newest_first() for each in entry.about())
        return next((Uid(uid) for uid, called_so in about if called_so == full_name), None)

    def left_alone(self, uid: Uid) -> Callable[[], Explanation] | None:
        """How to explain, in any thread, a pod that is not ours; None if it is, or was."""
        snapshot = self.mirror.snapshot()
        pod = snapshot.pods.get(uid)
        if pod is None or pod.scheduler_name == snapshot.scheduler_name:
            return None
        return partial(Explainer(snapshot, self.policy()).explain_now, pod)

    def recall(self, uid: Uid, name: str) -> Recalled | None:
        """What is known of the decision about a pod; None if nothing is."""
        return self._recalled(uid, name, self.record.moves())

    def _recalled(
        self, uid: Uid, name: str, moves: Mapping[str, Sequence[tuple[float, MoveOutcome]]]
    ) -> Recalled | None:
        chosen = self.record.chosen(uid, self.mirror.claimant(uid))
        if chosen is None:
            return None
        now = self.mirror.pod(uid)
        return Recalled(
            uid,
            name,
            chosen,
            self.record.basis(chosen.entry),
            now is not None and now.node_name is not None,
            tuple(move.answer(at) for at, move in moves.get(uid, ())),
            "" if now is None else self.summary(now),
            self.record.packing_for(uid) if now is not None and now.waits_for_node else "",
            gone=now is None,
        )

    def pending(self) -> PendingPods:
        """What there is to be asked about pods that wait for a node: ours first, oldest first."""
        snapshot = self.mirror.snapshot()
        ours = snapshot.scheduler_name
        waiting = [pod for pod in pending(snapshot) if not pod.terminating]
        waiting.sort(key=lambda pod: pod.scheduler_name != ours)
        moves = self.record.moves()

        def told(pod: Pod) -> Explanation:
            if pod.scheduler_name != ours:
                return left_alone(pod, ours)
            recalled = self._recalled(pod.uid, str(pod), moves)
            return Explanation(str(pod), ()) if recalled is None else _header(recalled)

        return PendingPods(tuple((pod.uid, told(pod)) for pod in waiting))

    def promising(self) -> Callable[[], list[Promised]]:
        """How to work out what is promised now, in any thread."""
        return partial(promised, self.mirror.snapshot(), self.policy())

    def summary(self, pod: Pod) -> str:
        """Why the pod was put where it was, in a line; empty if that is forgotten."""
        chosen = self.record.chosen(pod.uid, self.mirror.claimant(pod.uid))
        basis = self.record.basis(chosen.entry) if chosen is not None else None
        if chosen is None or basis is None:
            return ""
        parts = self._why(pod, chosen, basis)
        if told := describe_unproven(chosen.entry.certificates):
            parts.append(f"not proven, {told}")
        if pod.workload in self.mirror.measured.slower:
            parts.append(Cause.EDGE_SLOWER)
        return "; ".join(parts)

    def _why(self, pod: Pod, chosen: Chosen, basis: Basis) -> list[str]:
        if chosen.move is not None:
            move = chosen.move
            return [f"in place of {move.pod} on {move.source}: {move.kind}, {move.purpose}"]
        node = basis.snapshot.nodes.get(chosen.node or NodeName(""))
        if node is None:
            return []
        parts = [f"{node.tier} node"]
        workload = pod.workload
        if workload in basis.shares_before and workload in basis.shares_after:
            before, after = basis.shares_before[workload], basis.shares_after[workload]
            promise = self.policy().qos_targets_in(basis.snapshot)(workload)
            parts.append(
                f"edge share of {workload} {before.edge}/{before.total} ->"
                f" {after.edge}/{after.total}, promised {promise.qos:g}"
            )
        explainer = self._explainer_of(chosen.entry, basis)
        if (score := explainer.load_score(chosen.uid)) is not None:
            parts.append(f"load score {score:.0f}")
        rejections = explainer.rejections(chosen.uid, plain=basis.plain)
        count = len(basis.snapshot.nodes)
        fitted = f"{count - len(rejections)} of {count} nodes fitted"
        parts.append(f"{fitted}, {count_reasons(rejections)}" if rejections else fitted)
        if basis.looked_at is not None:
            parts.append(str(basis.looked_at))
        return parts

    def _explainer_of(self, entry: Entry, basis: Basis) -> Explainer:
        if self._explainer is None or self._explainer[0] != entry.number:
            explainer = Explainer(decided(basis, entry), self.policy(), basis.looked_at)
            self._explainer = (entry.number, explainer)
        return self._explainer[1]

    def explain(self, recalled: Iterable[Recalled]) -> list[Explanation]:
        """Explain each. Reads nothing that changes, so that any thread may do it."""
        policy = self.policy()
        explainers: dict[int, Explainer] = {}

        def explained(each: Recalled) -> Explanation:
            basis, entry = each.basis, each.chosen.entry
            if basis is None:
                return _header(each)
            if entry.number not in explainers:
                shot = decided(basis, entry)
                explainers[entry.number] = Explainer(shot, policy, basis.looked_at)
            nodes = explainers[entry.number].nodes(each.chosen.uid)
            return msgspec.structs.replace(_header(each), nodes=nodes, nodes_as_of="decision")

        return [explained(each) for each in recalled]


def _header(recalled: Recalled) -> Explanation:
    """Without what each node was for it."""
    chosen = recalled.chosen
    return Explanation(
        pod=recalled.pod,
        nodes=(),
        chosen=chosen.node,
        bound=recalled.bound,
        gone=recalled.gone,
        message=chosen.message or None,
        decided_at=rfc3339(chosen.entry.at),
        moves=recalled.moves,
        summary=recalled.summary or None,
        packing=recalled.packing or None,
    )


def decided(basis: Basis, entry: Entry) -> Snapshot:
    """The snapshot with everything where the decision puts it."""
    targets: dict[Uid, NodeName] = {c.uid: c.node for c in entry.pods if c.node is not None}
    targets |= {choice.move.pod.uid: choice.move.target for choice in entry.moves}
    return basis.snapshot.with_placed(targets)
