"""Explanations why pods that would benefit most from the edge are not migrated there."""

from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cached_property, reduce

import attrs

from kubedsm.model.model import NodeName, Pod, PodClass, Uid, Workload
from kubedsm.model.node_index import FreeCapacity
from kubedsm.objective.gains import Gains
from kubedsm.objective.objective import NANO
from kubedsm.objective.qos_targets import is_capped
from kubedsm.optimizer.matching.best_fit import greatest_allocatable, pod_size
from kubedsm.optimizer.moving.edge_items import leaving_turn
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.movable import Movable
from kubedsm.optimizer.moving.move_order import carry_out
from kubedsm.optimizer.moving.suggestion import (
    Cause,
    MoveKind,
    Moves,
    NotTaken,
    Reason,
    count_edge_changes,
    count_legs,
    count_migrations,
    list_steps,
)
from kubedsm.plugins.feasibility import Feasibility, Rejection
from kubedsm.plugins.fit import NODE_RESOURCES_FIT, too_little
from kubedsm.plugins.plugins import NODE_PLUGINS, rejections


@attrs.frozen(eq=False)
class StayReasons:
    """Explains why pods stay outside the edge, by the state of the cluster after the suggested
    migrations.
    """

    problem: EdgeProblem
    #: selected migrations, first nodes of pending pods included
    moves: Moves
    movable: Movable
    #: the suggestion is the best within the limits; None for the paper's form
    proven: bool | None
    _known: dict[PodClass, Mapping[NodeName, Rejection]] = attrs.field(factory=dict, init=False)

    def list_reasons(self, gains: Gains, named: Container[Uid]) -> Iterator[NotTaken]:
        """Yield the pods outside the edge with the greatest QoS gain relative to size, with the
        reason why each is not migrated.

        Pods with equal reasons are yielded once.
        """
        held = {pod.uid for pod in self._fixed if pod.node_name is not None}
        for alike in self._next_best(gains, named):
            first: dict[tuple[Workload, PodClass, Reason | None], Pod] = {}
            for pod in sorted(alike, key=leaving_turn):
                said = self.movable(pod) if pod.uid in held else None
                if said is None and is_capped(self.problem.gains.qos_targets, pod.workload):
                    said = Cause.EDGE_SLOWER.of()
                first.setdefault((pod.workload, pod.pod_class, said), pod)
            for (*_, said), pod in sorted(first.items(), key=lambda entry: str(entry[1])):
                yield NotTaken(pod, said or self._explain_pod(pod))

    def _next_best(self, gains: Gains, named: Container[Uid]) -> Iterator[list[Pod]]:
        """Yield lists of beneficial unnamed pods, by decreasing gain relative to size."""
        greatest = greatest_allocatable(self.problem.allocatable)
        more: dict[Workload, int] = {}
        for workload in gains.shares:
            gain = self._gain_one_more(gains, workload)
            if gain > 0:
                more[workload] = gain
        useful: dict[tuple[int, float], list[Pod]] = {}

        def alike(pod: Pod) -> list[Pod]:
            relative = more[pod.workload] / pod_size(pod.requests, greatest)
            return useful.setdefault((gains.level[pod.workload], -relative), [])

        for item in self.problem.items:
            if item.like.workload in more:
                alike(item.like).extend(item.in_cloud)
        for pod in self._fixed:
            if pod.workload in more:
                alike(pod).append(pod)
        for score in sorted(useful):
            yield [pod for pod in useful[score] if pod.uid not in named]

    def _gain_one_more(self, gains: Gains, workload: Workload) -> int:
        """Return the gain by another pod of the workload on the edge, after the migrations."""
        done = self._changes.get(workload, 0)
        return gains.of_workload(workload, done + 1) - gains.of_workload(workload, done)

    @cached_property
    def _changes(self) -> Mapping[Workload, int]:
        return count_edge_changes(self.moves)

    @cached_property
    def _fixed(self) -> Sequence[Pod]:
        """Immovable pods of this scheduler outside the edge, as far as QoS counts them."""
        placed, edge = self.problem.snapshot.placed, self.problem.rows
        return [
            pod
            for pod in self.problem.others
            if pod.counts_for_qos and placed.get(pod.uid) not in edge
        ]

    def _explain_pod(self, pod: Pod) -> Reason:
        nodes, refused = self.problem.nodes, self._list_rejections(pod)
        if pod.gated:
            return Cause.GATED.of()
        if not nodes:
            return Cause.NO_EDGE_NODE.of()
        if len(refused) < len(nodes):
            return self._explain_limits(pod) or self._explain_free(pod)
        words = ", ".join(sorted({reason for each in refused for reason in each.reasons}))
        plugins = {each.rule for each in refused}
        if NODE_RESOURCES_FIT.name not in plugins:
            return Cause.NO_NODE_TAKES_IT.of(words)
        if all(too_little(pod.requests, node.allocatable) for node in nodes):
            return Cause.NO_NODE_IS_LARGE_ENOUGH.of()
        of_nodes = plugins <= {plugin.name for plugin in NODE_PLUGINS}
        short = (
            "no edge node has free capacity for it"
            if of_nodes
            else f"no edge node accepts it ({words})"
        )
        return self._explain_limits(pod) or self._explain_full(short)

    def _explain_limits(self, pod: Pod) -> Reason | None:
        """Return the price or the limit preventing a migration to the edge; None without any."""
        limits, fixed = self.problem.limits, pod.node_name is not None
        if limits.price and fixed:
            worth = self._gain_one_more(self.problem.worths, pod.workload) / NANO
            if worth <= limits.price:
                below = Cause.BELOW_PRICE_ALONE.of(worth, limits.price)
                return below if worth else Cause.TARGET_MET.of()
        if self.proven is not None and count_legs(self.moves) >= limits.max_moves:
            return Cause.MOST_MOVES.of(limits.max_moves)
        fetched = sum(move.kind is MoveKind.CLOUD_TO_EDGE for move in self.moves)
        if fixed and fetched >= limits.max_cloud_to_edge:
            return Cause.MOST_FROM_THE_CLOUD.of(limits.max_cloud_to_edge)
        return None

    def _explain_free(self, pod: Pod) -> Reason:
        if pod.node_name is None:
            return Cause.ROOM_ANYWAY.of()
        if self.proven is None:
            return Cause.NOT_PICKED.of()
        return (Cause.WORTH_NOTHING if self.proven else Cause.NOT_FOUND).of()

    def _explain_full(self, short: str) -> Reason:
        kinds = {item.cloud_kind for item in self.problem.items if item.on_edge}
        cloud = self.problem.cloud
        if kinds and not any(kind is not None and cloud.takes(kind) for kind in kinds):
            return Cause.NO_ROOM_IN_THE_CLOUD.of(short)
        if count_migrations(self.moves) and self.proven is not None:
            left = self.problem.limits.max_moves - count_legs(self.moves)
            return Cause.NO_MORE_MOVES.of(short, left)
        return Cause.NO_MOVES.of(short)

    def _list_rejections(self, pod: Pod) -> list[Rejection]:
        """Return the rejections of the pod by edge nodes, after the suggested migrations."""
        after = self._rules_after
        found: Mapping[NodeName, Rejection]
        if after is not None:
            alone = after if pod.node_name is None else after.without_pod(pod.uid)
            found = alone.rejections(pod)
        else:
            if pod.pod_class not in self._known:
                index = self.problem.snapshot.index
                self._known[pod.pod_class] = rejections(pod.pod_class, index, self._room_after)
            found = self._known[pod.pod_class]
        return [rejected for name, rejected in found.items() if name in self.problem.rows]

    @cached_property
    def _room_after(self) -> FreeCapacity:
        return self.problem.snapshot.room.after(list_steps(self.moves))

    @cached_property
    def _rules_after(self) -> Feasibility | None:
        """Feasibility under rules between pods after the suggested migrations; None without rules
        between pods.
        """
        rules = self.problem.rules
        return None if rules is None else reduce(carry_out, self.moves, rules.feasibility)
