"""Dashboard tables of nodes, pods and workloads, with recomputation of changed rows only."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

import msgspec

from kubedsm.app.assembly import Runtime
from kubedsm.config.mismatches import missing_tiers
from kubedsm.dashboard.rows import NodeRow, PodRow, PodState, Row, SiteRow, WorkloadRow
from kubedsm.explain.node import node_state
from kubedsm.model.events import Change
from kubedsm.model.measured import Answers, Measured, Usage
from kubedsm.model.model import ENDING_KINDS, Node, NodeName, Pod, Share, Tier, Uid, Workload
from kubedsm.model.node_index import site_of
from kubedsm.model.sites import Away
from kubedsm.objective.objective import QosTarget
from kubedsm.objective.site_shares import sum_sites
from kubedsm.observability.reading import Reading

R = TypeVar("R", bound=Row)
R_co = TypeVar("R_co", bound=Row, covariant=True)

#: seconds between complete recomputations of workloads: a node's tier may change, and a QoS target
#: may depend on other workloads
REFRESH = 5.0


class Difference(NamedTuple, Generic[R_co]):
    """Changed row of a dashboard table, before and after the change; None for a nonexistent or
    deleted row.
    """

    before: R_co | None
    after: R_co | None


class RowTable(Generic[R]):
    """Rows of one table of the dashboard page, as of the last evaluation."""

    def __init__(self) -> None:
        self.rows: dict[str, R] = {}

    def replace(self, now: Mapping[str, R]) -> dict[str, Difference[R]]:
        """Replace all rows of the table; return the changed rows."""
        gone: dict[str, R | None] = dict.fromkeys(self.rows.keys() - now.keys())
        return self.update({**gone, **now})

    def update(self, rows: Mapping[str, R | None]) -> dict[str, Difference[R]]:
        """Set the given rows, and delete rows given as None; return the changed rows."""
        different: dict[str, Difference[R]] = {}
        for key, row in rows.items():
            before = self.rows.get(key)
            if before == row:
                continue
            different[key] = Difference(before, row)
            if row is None:
                del self.rows[key]
            else:
                self.rows[key] = row
        return different


class NodeTable(RowTable[NodeRow]):
    def __init__(self) -> None:
        super().__init__()
        #: message for each tier without nodes
        self.missing_tiers: Mapping[Tier, str] = {}
        self._touched: set[NodeName] = set()
        #: common inputs of all rows, as of the last evaluation
        self._measured: Measured | None = None
        self._of: tuple[Away, tuple[str, ...]] | None = None

    def observe_change(self, change: Change) -> None:
        for node in (change.node_before, change.node_after):
            if node is not None and change.node_before != change.node_after:
                self._touched.add(node.name)

    def look(self, runtime: Runtime, reading: Reading) -> dict[str, Difference[NodeRow]]:
        """Recompute the dashboard rows of changed nodes; return the changed rows."""
        snapshot, configuration = reading.snapshot, runtime.configuration.current
        labels = configuration.site.label
        of, touched = (reading.away, labels), set[str](self._touched)
        if snapshot.measured is not self._measured or of != self._of:
            touched = snapshot.nodes.keys() | self.rows.keys()
        rows = {name: self._make_row(NodeName(name), reading, labels) for name in sorted(touched)}
        self._measured, self._of, self._touched = snapshot.measured, of, set()
        if touched:
            self.missing_tiers = missing_tiers(snapshot.nodes.values(), configuration.tiers)
        return self.update(rows)

    def _make_row(
        self, name: NodeName, reading: Reading, labels: tuple[str, ...]
    ) -> NodeRow | None:
        node = reading.snapshot.nodes.get(name)
        if node is None:
            return None
        used = reading.snapshot.measured.nodes.get(name, Usage())
        row, before = _node_row(node, used, reading.away, labels), self.rows.get(name)
        if before is None:
            return row
        since = before.since if before.state == row.state else reading.now
        return msgspec.structs.replace(row, since=since)


def _node_row(node: Node, used: Usage, away: Away, site_labels: tuple[str, ...]) -> NodeRow:
    size = node.allocatable
    return NodeRow(
        tier=node.tier,
        cpu=size.cpu,
        memory=size.memory,
        pods=size.pods,
        site=site_of(node, site_labels),
        state=node_state(node, away),
        cordoned=node.unschedulable,
        cpu_used=_round_ratio(used.cpu, size.cpu),
        memory_used=_round_ratio(used.memory, size.memory),
    )


def _round_ratio(used: float | None, of: int) -> float | None:
    return None if used is None or not of else round(used / of, 3)


class Reason(NamedTuple):
    """Reason why a pod is pending, if known: message, rejecting Filter plugins, awaited node."""

    message: str = ""
    #: rejecting Filter plugins for the pod
    rules: Collection[str] = ()
    #: node on which capacity is being freed for the pod
    room_on: str = ""


class PodTable(RowTable[PodRow]):
    """Rows of pods on the dashboard, with pod counts by workload."""

    def __init__(self) -> None:
        super().__init__()
        self._touched: set[Uid] = set()
        #: pod of each row; name and workload of each pod
        self._uids: dict[str, Uid] = {}
        self._known: dict[Uid, tuple[str, Workload]] = {}
        #: last reason why each pod waits
        self._reasons: dict[Uid, Reason] = {}
        self._moves: Mapping[Uid, str] = {}
        #: numbers of opted-in pods that are Ready, or waiting for a node, by workload and state
        self.counts: Counter[tuple[Workload, PodState]] = Counter()
        #: workload and state as which each pod counts
        self._counted: dict[str, tuple[Workload, PodState]] = {}
        #: waiting pods by name
        self.unplaced: dict[str, PodRow] = {}
        #: workloads of pods recomputed by the last look
        self.workloads: set[Workload] = set()

    def touch(self, uids: Iterable[Uid]) -> None:
        """Mark the dashboard rows of these pods to be recomputed next time."""
        self._touched.update(uids)

    def waits(self, pod: Pod, why: str, rules: Collection[str]) -> None:
        self._reasons[pod.uid] = Reason(why, rules)
        self._touched.add(pod.uid)

    def look(
        self, runtime: Runtime, reading: Reading, moves: Mapping[Uid, str]
    ) -> dict[str, Difference[PodRow]]:
        """Recompute the dashboard rows of changed pods; return the changed rows.

        `moves`: migration of each pod.
        """
        if moves is not self._moves:
            self.touch(uid for uid, _ in moves.items() ^ self._moves.items())
            self._moves = moves
        touched, self._touched, self.workloads = self._touched, set(), set()
        rows: dict[str, PodRow | None] = {}
        # Sorted for reproducible messages.
        for uid in sorted(touched):
            pod = reading.snapshot.pods.get(uid)
            if pod is None or pod.finished:
                rows.update(self._forget_pod(uid))
                continue
            name = str(pod)
            self._known[uid] = name, pod.workload
            self._uids[name] = uid
            self.workloads.add(pod.workload)
            rows[name] = self._make_row(pod, runtime, reading)
        different = self.update(rows)
        for name, (_, after) in different.items():
            self._count_row(name, after)
        return different

    def _forget_pod(self, uid: Uid) -> dict[str, None]:
        self._reasons.pop(uid, None)
        if uid not in self._known:
            return {}
        name, workload = self._known.pop(uid)
        self.workloads.add(workload)
        # The next pod of a StatefulSet may have the name by now.
        if self._uids[name] != uid:
            return {}
        del self._uids[name]
        return {name: None}

    def _make_row(self, pod: Pod, runtime: Runtime, reading: Reading) -> PodRow:
        snapshot, uid = reading.snapshot, pod.uid
        node, reason = snapshot.placed.get(uid), Reason()
        if node is not None and pod.node_name is None and runtime.dry_run:
            node, reason = None, Reason(f"it would be bound to {node}, but this is a dry run")
        elif node is not None:
            self._reasons.pop(uid, None)
        elif pod.waits_for_node:
            reason = self._reasons.get(uid, reason)
            if pod.namespace in snapshot.surroundings.terminating_namespaces:
                reason = Reason("its namespace is being deleted")
            room = next(iter(runtime.mirror.sum_nominations([uid])), "")
            reason = reason._replace(room_on=room)
        return _pod_row(pod, node, snapshot.scheduler_name, reason, self._moves.get(uid, ""))

    def _count_row(self, name: str, row: PodRow | None) -> None:
        """Count the pod in its present state, in place of its former state."""
        self.unplaced.pop(name, None)
        if before := self._counted.pop(name, None):
            self.counts[before] -= 1
            if not self.counts[before]:
                del self.counts[before]
        if row is None or row.scheduler or row.state not in ("ready", "waiting"):
            return
        _, workload = self._known[self._uids[name]]
        self._counted[name] = workload, row.state
        self.counts[workload, row.state] += 1
        if row.state == "waiting":
            self.unplaced[name] = row


def _pod_row(pod: Pod, node: NodeName | None, ours: str, reason: Reason, move: str) -> PodRow:
    """Compute the page row of a pod: state, requests, node and pending reason.

    node: the assigned or reserved node; ours: the schedulerName of this scheduler.
    """
    state = _pod_state(pod, node)
    waits = state == "waiting"
    theirs = "" if pod.scheduler_name == ours else pod.scheduler_name
    message = ""
    if waits:
        message = f"it waits for the scheduler {theirs}" if theirs else reason.message
    elif state == "gated":
        message = f"it waits until its scheduling gates are removed: {', '.join(pod.gates)}"
    return PodRow(
        workload=str(pod.workload),
        state=state,
        created=pod.created,
        cpu=pod.requests.cpu,
        memory=pod.requests.memory,
        node=node or "",
        move=move,
        message=message,
        rules=tuple(sorted(reason.rules)) if waits else (),
        room_on=reason.room_on if waits else "",
        scheduler=theirs,
    )


def _pod_state(pod: Pod, node: NodeName | None) -> PodState:
    if pod.terminating:
        return "leaving"
    if pod.ready:
        return "ready"
    if node is not None:
        return "not ready" if pod.phase == "Running" else "starting"
    return "gated" if pod.gated else "waiting"


class WorkloadTable(RowTable[WorkloadRow]):
    def __init__(self) -> None:
        super().__init__()
        #: common inputs of all rows, as of the last complete evaluation, and the evaluation time
        self._measured: Measured | None = None
        self._generation = 0
        self._at = 0.0
        #: sites with demand, as of the last complete evaluation
        self.sites: tuple[SiteRow, ...] = ()

    def look(
        self, reading: Reading, pods: PodTable, *, knows_targets: bool
    ) -> dict[str, Difference[WorkloadRow]]:
        """Recompute the dashboard rows of changed workloads; return the changed rows.

        knows_targets: the effective configuration is known.
        """
        snapshot = reading.snapshot
        everything = (
            snapshot.measured is not self._measured
            or reading.generation != self._generation
            or abs(reading.now - self._at) >= REFRESH
        )
        if not everything and not pods.workloads:
            return {}
        shares = snapshot.census.shares
        qos_targets = reading.policy.qos_targets_in(snapshot) if knows_targets else None

        kinds = sorted({each.kind for each in shares})

        def row(workload: Workload) -> WorkloadRow | None:
            # Of workloads with equal names, the first kind has the row.
            for shown in (workload._replace(kind=kind) for kind in kinds):
                if shown in shares:
                    qos_target = qos_targets(shown) if qos_targets else None
                    return _workload_row(shown, shares[shown], qos_target, reading, pods)
            return None

        if not everything:
            return self.update({str(each): row(each) for each in sorted(pods.workloads)})
        self._measured, self._generation = snapshot.measured, reading.generation
        self._at = reading.now
        self.sites = _site_rows(reading) if knows_targets else ()
        return self.replace({str(each): made for each in shares if (made := row(each))})


def _site_rows(reading: Reading) -> tuple[SiteRow, ...]:
    snapshot, targets = reading.policy.resolve(reading.snapshot)
    return tuple(
        SiteRow(
            each.site,
            reached=round(each.reached_share, 3),
            target=round(each.target_share, 3),
            replicas=each.replicas,
            missing=each.missing,
        )
        for each in sum_sites(snapshot.census.shares, targets)
    )


def _workload_row(
    workload: Workload, share: Share, qos_target: QosTarget | None, reading: Reading, pods: PodTable
) -> WorkloadRow:
    measured = reading.snapshot.measured
    answers = measured.answers.get(workload, {})
    stays = workload.kind in ENDING_KINDS
    return WorkloadRow(
        kind=workload.kind,
        edge=share.edge,
        total=share.total,
        target=qos_target.qos if qos_target else None,
        weight=qos_target.weight if qos_target else 0.0,
        missing=max(0, qos_target.count_wanted(share.total) - share.edge) if qos_target else 0,
        surplus=0 if stays or qos_target is None else qos_target.count_surplus(share),
        ready=pods.counts[workload, "ready"],
        waiting=pods.counts[workload, "waiting"],
        edge_answers=_to_milliseconds(answers.get(Tier.EDGE)),
        cloud_answers=_to_milliseconds(answers.get(Tier.CLOUD)),
        edge_slower=workload in measured.slower,
    )


def _to_milliseconds(answers: Answers | None) -> float | None:
    return None if answers is None else round(1000 * answers.seconds, 1)
