"""Algorithm 1: a batch of new pods is placed as one."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from kubedsm.core.goals.fragmentation import Fragmentation, Measure, request_mix
from kubedsm.core.goals.objective import Objective, Promises, quality
from kubedsm.core.goals.replica_spread import ReplicaSpread
from kubedsm.core.packing.match import Bounds
from kubedsm.core.packing.problem import NO_RANK, Kind, Packing, Rank, Turn, kinds
from kubedsm.core.placing.alone import place_alone
from kubedsm.core.placing.batch_kinds import is_plain, judged_kinds
from kubedsm.core.placing.decision import Binding, Choice, Decision, make_decision
from kubedsm.core.placing.integer_choice import PLACED, QOS, Also
from kubedsm.core.placing.proof import Proof, plain_proof
from kubedsm.core.placing.ranks import ranks_of
from kubedsm.core.placing.replica_ladders import ReplicaLadders
from kubedsm.core.placing.rule_keeping import Kept, keep_rules
from kubedsm.core.placing.rule_rows import RuleRows
from kubedsm.core.placing.settling import WouldGain
from kubedsm.core.placing.shortfalls import amounts, shortfalls
from kubedsm.core.placing.solved_again import Attempt, solved, solved_again
from kubedsm.core.placing.split import demands
from kubedsm.core.rules.class_verdicts import rejections
from kubedsm.core.rules.feasibility import Feasibility
from kubedsm.core.rules.rejection import Rejection
from kubedsm.core.solving.in_order import Certificate
from kubedsm.core.world.model import (
    NodeName,
    Pod,
    PodClass,
    Resources,
    Share,
    Tier,
    Uid,
    Workload,
    shares_after,
)
from kubedsm.core.world.node_rows import NodeRows
from kubedsm.core.world.serving_order import levels_of, serving_order
from kubedsm.core.world.snapshot import Snapshot


def immediate_schedule(
    snapshot: Snapshot,
    pods: Iterable[Pod],
    promises: Promises,
    objective: Objective,
    measure: Measure = Measure.UNUSABLE,
    bounds: Bounds | None = None,
    patience: float = math.inf,
    *,
    default_spread: bool = True,
) -> Decision:
    """Where these waiting pods of the snapshot go.

    The edge first, by QoS; what it leaves over to the cloud; a pod that fits nowhere stays out,
    with the reasons. No edge node, no cloud node and no node at all are nothing special. Equal
    inputs give equal decisions, whatever the order in which pods and nodes are listed.

    With several priorities among the pods, no pod stays out for one of lower priority, and the QoS
    of the workloads of a higher level comes before that of a lower one; the level of a workload is
    the greatest priority of its pods in the batch. Among pods of one priority those come first that
    have waited for longer than `patience`, in seconds.

    default_spread: whether the replicas of a workload go as far apart as costs no QoS.
    """
    ordered = sorted(pods, key=serving_order)
    batch: list[Pod] = []
    set_aside: list[Pod] = []
    for pod in ordered:
        (set_aside if pod.requests.beyond_any_node else batch).append(pod)
    problem = _Problem(
        snapshot,
        batch,
        snapshot.shares(),
        promises,
        objective,
        Fragmentation(measure, request_mix(snapshot)),
        bounds or Bounds(),
        ranks_of(batch, snapshot.at, patience),
        ReplicaSpread.of(snapshot, {pod.workload for pod in batch}) if default_spread else None,
    )
    return _plain(problem, ordered) if is_plain(snapshot, batch) else _ruled(problem, set_aside)


def _plain(problem: "_Problem", ordered: Sequence[Pod]) -> Decision:
    """Of pods whose classes, with each node by itself, say all there is to say."""
    snapshot, batch = problem.snapshot, problem.batch
    choice = problem.alone(batch[0]) if len(batch) == 1 else problem.plain_choice()
    bindings = problem.bindings(choice)
    unplaced = _why_not(snapshot, bindings, _others(ordered, bindings))
    proof = choice.proof.or_else(problem.plain_proof(bindings))
    decision = problem.decision(bindings, unplaced, choice.fragmentation, proof)
    certificates = problem.certificates(bindings, choice, proof)
    return attrs.evolve(decision, plain=True, certificates=certificates)


def _ruled(problem: "_Problem", set_aside: Sequence[Pod]) -> Decision:
    """Of pods with demands of other pods, or of what surrounds them."""
    snapshot, feasibility = problem.snapshot, Feasibility.of(problem.snapshot)
    choice, indifferent = _judged(problem, feasibility)
    solver = problem.bounds.solver
    best = first = Attempt(choice, problem.kept(feasibility, choice, anew=solver is None))
    bounding = [first.choice]
    if solver is not None and not first.kept.as_planned:
        for attempt in problem.solved_again(feasibility, first):
            best = max(best, attempt, key=problem.merit)
            bounding += [attempt.choice] if attempt.bounding else []
            if problem.proof(best, bounding).qos:
                break
    bindings = problem.kept_bindings(best.kept)
    room = _room_after(snapshot, bindings)
    proof = problem.proof(best, bounding)
    if best is first and indifferent:
        proof = attrs.evolve(proof, preferences=False, spread=False, fragmentation=False)
    unplaced = {**best.kept.rejections, **_why_not(snapshot, bindings, set_aside)}
    fragmentation = problem.fragmentation.of(problem.edge.nodes, room)
    decision = problem.decision(bindings, unplaced, fragmentation, proof)
    certificates = problem.certificates(bindings, first.choice, proof)
    return attrs.evolve(decision, late=best.kept.late, certificates=certificates)


@attrs.frozen(eq=False)
class _Problem:
    snapshot: Snapshot
    #: in the order in which they are served
    batch: Sequence[Pod]
    shares: Mapping[Workload, Share]
    promises: Promises
    objective: Objective
    fragmentation: Fragmentation
    bounds: Bounds
    #: None if no pod goes before others
    ranks: Mapping[Uid, Rank] | None
    #: of the workloads of the batch, without it; None if it does not matter
    spread: ReplicaSpread | None
    edge: NodeRows = attrs.field(init=False)
    cloud: NodeRows = attrs.field(init=False)

    @edge.default
    def _edge(self) -> NodeRows:
        return self.snapshot.in_turn(Tier.EDGE)

    @cloud.default
    def _cloud(self) -> NodeRows:
        return self.snapshot.in_turn(Tier.CLOUD)

    def alone(self, pod: Pod) -> Choice:
        share, promise = self.shares.get(pod.workload, Share()), self.promises(pod.workload)
        return place_alone(
            pod,
            self.edge,
            self.cloud,
            self.objective.gain(share, promise),
            self.fragmentation,
            self.spread,
        )

    def plain_choice(self) -> Choice:
        return self.choice(kinds(self.batch, self.edge + self.cloud, self.ranks))

    def choice(self, batch_kinds: Sequence[Kind]) -> Choice:
        replicas = None
        if self.spread is not None:
            replicas = ReplicaLadders.of(batch_kinds, self.edge + self.cloud, self.spread)
        return make_decision(
            *self.packings(batch_kinds, replicas),
            self.shares,
            self.promises,
            self.objective,
            self.fragmentation,
            self.bounds,
            replicas,
        )

    def packings(
        self, batch_kinds: Sequence[Kind], replicas: ReplicaLadders | None = None
    ) -> tuple[Packing, Packing]:
        """Of the edge and of the cloud."""
        measured = [vector for vector, _ in self.fragmentation.mix]
        at_edge, in_cloud = (
            None if replicas is None else replicas.on(rows) for rows in (self.edge, self.cloud)
        )
        return (
            Packing.of(batch_kinds, self.edge, measured, at_edge),
            Packing.of(batch_kinds, self.cloud, ladders=in_cloud),
        )

    def kept(self, feasibility: Feasibility, choice: Choice, *, anew: bool) -> Kept:
        """What rules of pods about pods leave of a choice."""
        bindings = self.bindings(choice)
        return keep_rules(
            feasibility,
            self.snapshot.surroundings,
            [(binding.pod, binding.node) for binding in bindings],
            _others(self.batch, bindings),
            self.would_gain,
            self.turn,
            self.bounds.deadline,
            proven=choice.proof.placed,
            spread=self.spread,
            anew=anew,
        )

    def solved_again(self, feasibility: Feasibility, first: Attempt) -> Iterator[Attempt]:
        """What a solver makes of it, and what can be kept of that; then without the solver."""
        batch_kinds = judged_kinds(
            self.batch, feasibility, self.snapshot.surroundings, self.ranks, told_apart=True
        )
        edge, cloud = self.packings(batch_kinds)
        members = demands(edge, self.shares, self.promises, self.objective)

        # What it leaves is for the orders that would be tried without it.
        bounds = attrs.evolve(self.bounds, deadline=self.bounds.deadline.part(0.5))

        def choose(also: Also, begun: Kept) -> Choice | None:
            return solved(
                edge,
                cloud,
                members,
                self.objective,
                self.fragmentation,
                bounds,
                self.spread,
                also,
                begun,
            )

        def keep(choice: Choice, *, anew: bool) -> Kept:
            return self.kept(feasibility, choice, anew=anew)

        rules = RuleRows.of(feasibility, edge, cloud)
        yield from solved_again(
            first, rules, feasibility.equivalence, choose, keep, bounds.deadline
        )
        if not self.bounds.deadline.passed:
            yield Attempt(first.choice, keep(first.choice, anew=True))

    def merit(self, attempt: Attempt) -> tuple[object, ...]:
        placed, worth = self.standing(self.kept_bindings(attempt.kept))
        return placed, attempt.kept.sound, worth, attempt.kept.as_planned

    def proof(self, attempt: Attempt, bounding: Iterable[Choice]) -> Proof:
        """bounding: choices that no placement is better than, as far as these are proven."""
        if attempt.kept.as_planned and attempt.bounding and attempt.choice.proven:
            return attempt.choice.proof
        bindings = self.kept_bindings(attempt.kept)
        proof, reached = self.plain_proof(bindings), self.standing(bindings)
        for choice in bounding:
            bound = self.standing(self.bindings(choice))
            if choice.proof.placed and reached[0] == bound[0]:
                qos = proof.qos or (choice.proof.qos and reached == bound)
                proof = attrs.evolve(proof, placed=True, qos=qos)
        return proof

    def kept_bindings(self, kept: Kept) -> tuple[Binding, ...]:
        """In an order in which each keeps its rules as it comes."""
        placed = [(pod, node, self.snapshot.nodes[node].tier) for pod, node in kept.placed]
        return tuple(Binding(pod, node, tier) for pod, node, tier in placed if tier is not None)

    def bindings(self, choice: Choice) -> tuple[Binding, ...]:
        """In the order in which the pods are served."""
        placed = {
            pod.uid: Binding(pod, node, tier)
            for tier, targets in ((Tier.EDGE, choice.edge), (Tier.CLOUD, choice.cloud))
            for pod, node in targets
        }
        return tuple(placed[pod.uid] for pod in self.batch if pod.uid in placed)

    def shares_after(self, bindings: Iterable[Binding]) -> dict[Workload, Share]:
        more = Counter(b.pod.workload for b in bindings if b.tier is Tier.EDGE)
        return shares_after(self.shares, more)

    def standing(self, bindings: Sequence[Binding]) -> tuple[list[int], list[int]]:
        """What they are worth before preferences: pods by their turn, then QoS by level."""
        placed, worth = self.by_turn(bindings), self.by_level(bindings)
        return (
            [placed[turn] for turn in sorted(placed, reverse=True)],
            [worth[level] for level in sorted(worth, reverse=True)],
        )

    def by_turn(self, bindings: Iterable[Binding]) -> dict[Turn, int]:
        """How many of their pods have each turn of the batch."""
        placed = dict.fromkeys(map(self.turn, self.batch), 0)
        for binding in bindings:
            placed[self.turn(binding.pod)] += 1
        return placed

    def by_level(self, bindings: Iterable[Binding]) -> dict[int, int]:
        """The QoS of the workloads of the batch that have each level."""
        after, levels = self.shares_after(bindings), levels_of(self.batch) or {}
        by_level: dict[int, dict[Workload, Share]] = {}
        for pod in self.batch:
            if pod.workload in after:
                level = by_level.setdefault(levels.get(pod.workload, 0), {})
                level[pod.workload] = after[pod.workload]
        return {
            level: quality(of_level, self.promises, self.objective)
            for level, of_level in by_level.items()
        }

    def certificates(
        self, bindings: Sequence[Binding], most: Choice, proof: Proof
    ) -> tuple[Certificate, ...]:
        """Of what is not proven; `most` is no worse than any placement, but for its own."""
        known = {PLACED: proof.placed, QOS: proof.qos}
        if all(known.values()):
            return ()
        none = self.by_level(())
        reached, best = (
            amounts(self.by_turn(of), {at: n - none[at] for at, n in self.by_level(of).items()})
            for of in (bindings, self.bindings(most))
        )
        found = shortfalls(reached, best, most.certificates)
        return tuple(each for each in found if not known[each.goal])

    def turn(self, pod: Pod) -> Turn:
        """Pods with a greater one are placed before any number with a lesser."""
        return (self.ranks[pod.uid] if self.ranks else NO_RANK).turn

    @property
    def would_gain(self) -> WouldGain:
        def would_gain(workload: Workload, more: int) -> bool:
            share = self.shares.get(workload, Share())
            then = Share(share.edge + more, share.total)
            return self.objective.gain(then, self.promises(workload)) > 0

        return would_gain

    def plain_proof(self, bindings: Sequence[Binding]) -> Proof:
        on_edge = sum(binding.tier is Tier.EDGE for binding in bindings)
        return plain_proof(len(self.batch), len(bindings), on_edge)

    def decision(
        self,
        bindings: tuple[Binding, ...],
        unplaced: Mapping[Uid, Mapping[NodeName, Rejection]],
        fragmentation: int,
        proof: Proof,
    ) -> Decision:
        after = self.shares_after(bindings)
        before = quality(self.shares, self.promises, self.objective)
        changed = {binding.pod.workload for binding in bindings} & after.keys()
        then, now = (
            quality({workload: of[workload] for workload in changed}, self.promises, self.objective)
            for of in (self.shares, after)
        )
        return Decision(
            bindings=bindings,
            unplaced=unplaced,
            score_before=before,
            score_after=before - then + now,
            fragmentation=fragmentation,
            proof=proof,
            shares_before=self.shares,
            shares_after=after,
        )


def _judged(problem: _Problem, feasibility: Feasibility) -> tuple[Choice, bool]:
    """The choice among pods that speak of others, or would rather be elsewhere.

    What pods like makes more kinds of them, and so the bounds are met sooner; where that is so, it
    is also tried without, and what pods like must not cost a placement or any QoS. Says whether it
    was made without, too.
    """
    snapshot, batch = problem.snapshot, problem.batch
    ranks = problem.ranks
    liked = judged_kinds(batch, feasibility, snapshot.surroundings, ranks)
    choice = problem.choice(liked)
    if choice.proven or not any(kind.penalties for kind in liked):
        return choice, False
    indifferent = problem.choice(
        judged_kinds(batch, feasibility, snapshot.surroundings, ranks, preferences=False)
    )
    standings = [problem.standing(problem.bindings(each)) for each in (choice, indifferent)]
    better = standings[1] > standings[0]
    return (indifferent, True) if indifferent.proven or better else (choice, False)


def _others(batch: Iterable[Pod], bindings: Iterable[Binding]) -> list[Pod]:
    placed = {binding.pod.uid for binding in bindings}
    return [pod for pod in batch if pod.uid not in placed]


def _room_after(snapshot: Snapshot, bindings: Iterable[Binding]) -> dict[NodeName, Resources]:
    free = dict(snapshot.free)
    for binding in bindings:
        free[binding.node] -= binding.pod.requests
    return free


def _why_not(
    snapshot: Snapshot, bindings: Sequence[Binding], unplaced: Sequence[Pod]
) -> dict[Uid, Mapping[NodeName, Rejection]]:
    if not unplaced:
        return {}
    free = _room_after(snapshot, bindings)
    room = snapshot.room.now(free, {binding.node for binding in bindings})
    known: dict[PodClass, Mapping[NodeName, Rejection]] = {}
    answers: dict[Uid, Mapping[NodeName, Rejection]] = {}
    for pod in unplaced:
        if pod.pod_class not in known:
            known[pod.pod_class] = rejections(pod.pod_class, snapshot.index, room)
        answers[pod.uid] = known[pod.pod_class]
    return answers
