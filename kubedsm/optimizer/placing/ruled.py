"""Decision on a batch with rules between pods."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import attrs

from kubedsm.model.model import Pod
from kubedsm.model.node_index import Mask
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.matching.problem import Kind, Packing
from kubedsm.optimizer.placing.batch import Batch, place_one_at_a_time, without_binding
from kubedsm.optimizer.placing.batch_kinds import group_ruled_kinds
from kubedsm.optimizer.placing.batch_mip import (
    PLACED,
    QOS,
    Also,
    build_programme,
    derive_proof,
)
from kubedsm.optimizer.placing.decision import (
    Binding,
    Choice,
    Decision,
    room_after,
    split_by_pick,
)
from kubedsm.optimizer.placing.proof import Proof
from kubedsm.optimizer.placing.replica_spreading import DealtTier
from kubedsm.optimizer.placing.rule_keeping import Kept, keep_rules
from kubedsm.optimizer.placing.ruled_mip import (
    Attempt,
    RuleRows,
    complete_values,
    count_loads,
    sample_classes,
)
from kubedsm.optimizer.placing.split import list_demands
from kubedsm.optimizer.programming.in_order import MOST_VARIABLES, maximise_in_order
from kubedsm.plugins.feasibility import Feasibility

#: Nodes times kinds above which the solver gets a sample of nodes first.
_MANY = 2_000


def decide_ruled(batch: Batch, set_aside: Sequence[Pod]) -> Decision:
    """Decide on the batch; set_aside: pods larger than any node."""
    ruled = _Ruled(batch, Feasibility.of(batch.snapshot))
    if len(batch.pods) == 1:
        return ruled.decision(ruled.one_at_a_time(), Proof(), set_aside)
    choice, indifferent = ruled.first_choice()
    solver = batch.bounds.solver
    best = first = Attempt(choice, ruled.keep(choice, anew=solver is None))
    bounding = [first.choice]
    if solver is not None and not first.kept.as_planned:
        for attempt in ruled.other_attempts(first):
            best = max(best, attempt, key=ruled.merit)
            bounding += [attempt.choice] if attempt.bounding else []
            if ruled.proof(best, bounding).qos:
                break
    proof = ruled.proof(best, bounding)
    if not (proof.placed and proof.qos):
        # Ties go to the first: the floor must be better.
        floor = Attempt(first.choice, ruled.one_at_a_time(), bounding=False)
        best = max(best, floor, key=ruled.merit)
        proof = ruled.proof(best, bounding)
    if best is first and indifferent:
        proof = attrs.evolve(proof, preferences=False, spread=False, fragmentation=False)
    decision = ruled.decision(best.kept, proof, set_aside)
    # The last choice has the most rules.
    bounded = (c for c in reversed(bounding) if all(e.bound is not None for e in c.certificates))
    certificates = batch.certificates(decision.bindings, next(bounded, first.choice), proof)
    return attrs.evolve(decision, certificates=certificates)


@attrs.frozen(eq=False)
class _Ruled:
    batch: Batch
    feasibility: Feasibility

    def first_choice(self) -> tuple[Choice, bool]:
        """Return the choice, and whether penalties were ignored.

        Penalties make more kinds, so the exact-search limit is met sooner. Then the choice is also
        made without: penalties must cost no placement and no QoS.
        """
        liked = self.group_kinds()
        choice = self.batch.choice(liked)
        if choice.proven or not any(kind.penalties for kind in liked):
            return choice, False
        indifferent = self.batch.choice(self.group_kinds(preferences=False))
        batch = self.batch
        with_it, without = map(batch.standing, map(batch.bindings, (choice, indifferent)))
        better = without > with_it
        return (indifferent, True) if indifferent.proven or better else (choice, False)

    def group_kinds(self, **how: bool) -> tuple[Kind, ...]:
        """Return the kinds of the batch, see `group_ruled_kinds`."""
        batch = self.batch
        surroundings = batch.snapshot.surroundings
        return group_ruled_kinds(batch.pods, self.feasibility, surroundings, batch.ranks, **how)

    def keep(self, choice: Choice, *, anew: bool) -> Kept:
        """Return what the rules between pods leave of a choice."""
        bindings = self.batch.bindings(choice)
        return keep_rules(
            self.feasibility,
            self.batch.snapshot.surroundings,
            [(binding.pod, binding.node) for binding in bindings],
            without_binding(self.batch.pods, bindings),
            self.batch.gain_at_edge,
            self.batch.turn,
            self.batch.bounds.deadline,
            proven=choice.proof.placed,
            spread=self.batch.spread,
            anew=anew,
        )

    def other_attempts(self, first: Attempt) -> Iterator[Attempt]:
        """Yield attempts of the solver, on sampled nodes first, and then restarts without it."""
        batch_kinds = self.group_kinds(told_apart=True)
        rows = self.batch.edge + self.batch.cloud
        whole = Packing.of(batch_kinds, rows)
        # The rest of the time is for restarts without the solver.
        bounds = attrs.evolve(self.batch.bounds, deadline=self.batch.bounds.deadline.part(0.5))
        if len(rows.positions) * len(batch_kinds) > _MANY:
            part = attrs.evolve(bounds, deadline=bounds.deadline.part(0.5))
            likes = [self.feasibility.equivalence(kind.pods[0]) for kind in batch_kinds]
            some = self.feasibility.index.match_names(node for _, node in first.kept.placed)
            few = sample_classes(whole, likes, self.feasibility.scene, _MANY // len(batch_kinds))
            some[rows.positions[few]] = True
            for attempt in self._solve_on(some, batch_kinds, first, part):
                yield attrs.evolve(attempt, bounding=False)
        if len(rows.positions) * len(batch_kinds) <= MOST_VARIABLES:
            every = self.feasibility.index.every()
            yield from self._solve_on(every, batch_kinds, first, bounds)
        if not self.batch.bounds.deadline.passed:
            yield Attempt(first.choice, self.keep(first.choice, anew=True))

    def _solve_on(
        self,
        nodes: Mask,
        batch_kinds: Sequence[Kind],
        first: Attempt,
        bounds: Bounds,
    ) -> Iterator[Attempt]:
        """Yield attempts on the nodes with more and more rules as rows.

        First with all constraints kept in the end; where kube-scheduler is more lenient, also with
        each pod keeping its own as it comes. The solver starts from what was kept before.
        """
        edge, cloud = (
            Packing.of(batch_kinds, rows.only(nodes))
            for rows in (self.batch.edge, self.batch.cloud)
        )
        rule_rows, like = RuleRows.of(self.feasibility, edge, cloud), self.feasibility.equivalence
        attempt, in_the_way = first, set(map(like, first.moved))
        for sound in (True, False) if rule_rows.lenient else (True,):
            rules = attrs.evolve(rule_rows, sound=sound)
            while not bounds.deadline.passed:
                also = partial(rules.add, concerned=frozenset(in_the_way))
                choice = self._solve(edge, cloud, bounds, also, attempt.kept)
                if choice is None:
                    break
                bounding = not (sound and rules.lenient)
                attempt = Attempt(choice, self.keep(choice, anew=not sound), bounding)
                yield attempt
                more = set(map(like, attempt.moved))
                if more <= in_the_way:
                    break
                in_the_way |= more

    def _solve(
        self, edge: Packing, cloud: Packing, bounds: Bounds, also: Also, begun: Kept
    ) -> Choice | None:
        """Return the solver's choice, no worse than the start; None without an answer."""
        batch = self.batch
        members = list_demands(edge, batch.shares, batch.qos_targets, batch.objective)
        made = build_programme(edge, cloud, members, batch.objective, also)
        hint = complete_values(made, count_loads(edge, cloud, begun), bounds)
        found = maximise_in_order(made.programme, made.goals, bounds.solver, bounds.deadline, hint)
        if found.values is None:
            return None
        loads = found.values[made.loads]
        on_edge, in_cloud = loads[: len(edge.nodes)], loads[len(edge.nodes) :]
        chosen, others = split_by_pick(edge, made.picks(found.values))
        parts = (edge, on_edge, chosen), (cloud, in_cloud, others)
        if batch.spread is None:
            at_edge, at_cloud = (packing.targets(of, pods) for packing, of, pods in parts)
        else:
            there = batch.spread.copy()
            at_edge, at_cloud = (DealtTier.of(*part, there).targets for part in parts)
        room = edge.room_after(on_edge)
        fragmented = batch.fragmentation.costs(edge.axes, edge.allocatable, room)
        proof = derive_proof(found.certificates)
        told = tuple(c for c in found.certificates if c.goal in (PLACED, QOS) and not c.proven)
        return Choice(at_edge, at_cloud, int(fragmented.sum()), proof, told)

    def merit(self, attempt: Attempt) -> tuple[object, ...]:
        """Sort key of attempts: soundness comes before QoS, unless time was too short."""
        placed, worth = self.batch.standing(self.bindings(attempt.kept))
        sound = attempt.kept.sound and attempt.choice.proof.qos
        return placed, sound, worth, attempt.kept.as_planned

    def proof(self, attempt: Attempt, bounding: Iterable[Choice]) -> Proof:
        """Return what is proven; bounding: choices that no placement exceeds."""
        bindings = self.bindings(attempt.kept)
        proof, reached = self.batch.plain_proof(bindings), self.batch.standing(bindings)
        if attempt.kept.as_planned and attempt.bounding:
            proof = proof.or_else(attempt.choice.proof)
        for choice in bounding:
            bound = self.batch.standing(self.batch.bindings(choice))
            if choice.proof.placed and reached[0] == bound[0]:
                qos = proof.qos or (choice.proof.qos and reached == bound)
                proof = attrs.evolve(proof, placed=True, qos=qos)
        return proof

    def one_at_a_time(self) -> Kept:
        """Return the floor, one pod at a time."""
        settling = place_one_at_a_time(self.batch, self.feasibility)
        out = [pod for pod in self.batch.pods if pod.uid not in settling.placed]
        return Kept(
            tuple(settling.placed.values()),
            {pod.uid: settling.rejections(pod) for pod in out},
            as_planned=False,
            sound=settling.sound,
        )

    def decision(self, kept: Kept, proof: Proof, set_aside: Sequence[Pod]) -> Decision:
        """Return the decision that carries out what was kept."""
        batch, bindings = self.batch, self.bindings(kept)
        unplaced = {**kept.rejections, **batch.why_not(bindings, set_aside)}
        room = room_after(batch.snapshot.free, bindings)
        fragmentation = batch.fragmentation.of(batch.edge.nodes, room)
        return batch.decision(bindings, unplaced, fragmentation, proof)

    def bindings(self, kept: Kept) -> tuple[Binding, ...]:
        """Return bindings in an order in which each pod keeps its rules."""
        return self.batch.bindings_at(kept.placed)
