"""Placement of a batch whose pods have affinity, spread or port rules between pods, by an integer
programme.

The first placement ignores constraints between pods of the batch, and is then repaired. If the
repair changes the placement, the solver decides with constraints as rows. Every placement in which
each pod satisfies its constraints at arrival satisfies the rows, so upper bounds remain valid.
Feasibility is verified by sequential placement (`settling`).
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Self, TypeVar

import attrs
import numpy as np

from kubedsm.model.model import NodeName, Pod, PodAffinityTerm, SpreadConstraint, Uid
from kubedsm.model.node_index import MISSING, Codes, Ints, Mask, Positions
from kubedsm.model.residents import Selection
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.matching.problem import (
    Kind,
    PlacementProblem,
    count_before,
    group_equal_rows,
    group_ruled_kinds,
)
from kubedsm.optimizer.placing.batch import Batch
from kubedsm.optimizer.placing.batch_mip import (
    PLACED,
    QOS,
    Also,
    IntegerChoice,
    build_programme,
    derive_proof,
)
from kubedsm.optimizer.placing.decision import Choice, Decision, divide_placement
from kubedsm.optimizer.placing.heuristics import Placement
from kubedsm.optimizer.placing.replica_spreading import TierAssignment
from kubedsm.optimizer.placing.rule_keeping import Attempt, keep_rules
from kubedsm.optimizer.placing.settling import place_one_at_a_time
from kubedsm.optimizer.placing.site_columns import Columns
from kubedsm.optimizer.placing.split import list_demands
from kubedsm.optimizer.programming.in_order import MOST_VARIABLES, Proof, maximise_in_order
from kubedsm.optimizer.programming.programme import Rows
from kubedsm.plugins.feasibility import Feasibility
from kubedsm.plugins.fit import ports_clash
from kubedsm.plugins.plugin import EquivalenceClass, Rejection, Scene, node_labels
from kubedsm.plugins.spread import Domains, domains_of
from kubedsm.plugins.volumes import is_shared_disk

_T = TypeVar("_T", bound=Hashable)
#: Of S kinds, some.
_Kinds = list[int]


@attrs.frozen(eq=False)
class RuleRows:
    """Rules between pods (affinity, spread, ports) as constraint rows of an integer programme, by
    kind of pods and node.

    Each kind is one pod equivalence class.
    """

    scene: Scene
    #: S
    likes: Sequence[EquivalenceClass]
    #: N
    positions: Positions
    #: N x S, how many of a kind the node takes, if none of another come
    most: Ints
    #: S
    counts: Ints
    #: whether spread constraints hold in the end, not only for each pod as it comes
    sound: bool = False

    @classmethod
    def of(cls, feasibility: Feasibility, edge: PlacementProblem, cloud: PlacementProblem) -> Self:
        """Construct the constraint rows from edge and cloud placement problems with the same groups
        of interchangeable pods.
        """
        problems = edge, cloud
        return cls(
            feasibility.scene,
            [feasibility.equivalence(kind.pods[0]) for kind in edge.kinds],
            np.concatenate([problem.rows.positions for problem in problems]),
            np.concatenate([problem.fitting for problem in problems]),
            edge.counts,
        )

    @property
    def lenient(self) -> bool:
        """True if pods without a spread constraint may violate others' spread by arriving later."""
        return any(not set(rule.covered).issubset(rule.holders) for rule in self._list_even())

    def add(self, rows: Rows, y: Ints) -> None:
        """Add the rules between pods to the integer programme; y: pod-count variables, shape
        (nodes, groups of interchangeable pods).
        """
        rules: Iterable[_Apart | _Even | _Together]
        rules = *self._list_apart(), *self._list_even(), *self._list_together()
        for rule in rules:
            rule.add(self, rows, y)

    def at_most(self, here: Positions) -> Ints:
        """Return the maximum number of pods of each kind (interchangeable pods) on the given nodes
        together.
        """
        most: Ints = np.minimum(self.most[here].sum(axis=0), self.counts)
        return most

    def codes(self, key: str) -> Codes:
        codes: Codes = self.scene.nodes.label(key).codes[self.positions]
        return codes

    def _list_covered(self, *selections: Selection) -> _Kinds:
        return [
            k
            for k, like in enumerate(self.likes)
            if all(
                s.covers(like.namespace, like.label_map, self.scene.surroundings)
                for s in selections
            )
        ]

    def _list_holders(self, of: Callable[[EquivalenceClass], Iterable["_T"]]) -> dict["_T", _Kinds]:
        """Return, for each affinity term or other constraint, the kinds of pods that carry the
        constraint.
        """
        held: dict[_T, _Kinds] = {}
        for k, like in enumerate(self.likes):
            for what in of(like):
                held.setdefault(what, []).append(k)
        return held

    def _list_apart(self) -> Iterator["_Apart"]:
        for term, holders in self._list_holders(lambda like: like.rules.anti_affinity).items():
            covered = self._list_covered(Selection.of(term))
            yield _Apart(self.codes(term.topology_key), holders, covered)
        each = np.arange(1, len(self.positions) + 1)
        ports = self._list_holders(lambda like: like.rules.ports)
        for port, holders in ports.items():
            clashing = {k for other, of in ports.items() if ports_clash(port, other) for k in of}
            yield _Apart(each, holders, sorted(clashing))
        disks = self._list_holders(lambda like: like.rules.disks)
        for disk, holders in disks.items():
            clashing = {
                k
                for other, of in disks.items()
                if (other.kind, other.identity) == (disk.kind, disk.identity)
                and not (is_shared_disk(disk) and other.read_only)
                for k in of
            }
            yield _Apart(each, holders, sorted(clashing))
        for claim, holders in self._list_holders(lambda like: like.rules.claim_keys).items():
            if any(c.once_per_pod for c in self.scene.surroundings.claims_at((claim,))):
                yield _Apart(np.ones_like(each), holders, holders)

    def _list_even(self) -> Iterator["_Even"]:
        found: dict[tuple[SpreadConstraint, bytes], _Even] = {}
        for k, like in enumerate(self.likes):
            for constraint, domains in domains_of(like, self.scene):
                key = constraint, domains.counted.tobytes()
                if key not in found:
                    covered = self._list_covered(domains.selection)
                    found[key] = _Even(constraint.max_skew, domains, [], covered)
                found[key].holders.append(k)
        yield from found.values()

    def _list_together(self) -> Iterator["_Together"]:
        for terms, holders in self._list_holders(lambda like: [like.rules.affinity]).items():
            if terms:
                yield _Together(terms, holders, self._list_covered(*map(Selection.of, terms)))


@attrs.frozen(eq=False)
class _Apart:
    """Anti-affinity, host ports and disks: holders share no topology domain with covered pods."""

    #: N
    codes: Codes
    holders: _Kinds
    covered: _Kinds

    def add(self, batch: RuleRows, rows: Rows, y: Ints) -> None:
        for here in _by_domain(self.codes):
            most = batch.at_most(here)
            both = [k for k in self.holders if k in self.covered and most[k]]
            held = [k for k in self.holders if k not in self.covered and most[k]]
            others = [k for k in self.covered if k not in self.holders and most[k]]
            alone = y[here][:, both].ravel()
            # 1 if there are holders that are not covered.
            asked = rows.variables([1] if held and others else [])
            if both and (len(asked) or int(most[both].sum()) > 1):
                rows.add((alone, 1), (asked, 1), most=1)
            for k in others:
                rows.add((y[here, k], 1), (alone, most[k]), (asked, most[k]), most=most[k])
            for k in held:
                if others:
                    rows.add((y[here, k], 1), (asked, -most[k]), most=0)
                else:
                    rows.add((y[here, k], 1), (alone, most[k]), most=most[k])


@attrs.frozen(eq=False)
class _Even:
    """Topology spread: domains with constraint holders have a limited number of covered pods."""

    max_skew: int
    domains: Domains
    holders: _Kinds
    covered: _Kinds

    def add(self, batch: RuleRows, rows: Rows, y: Ints) -> None:
        domains, matching = self.domains, self.domains.matching(batch.scene)
        fewest = domains.least(matching)
        counted = self.covered
        if not batch.sound:
            counted = [k for k in counted if k in self.holders]
        codes = np.where(domains.counted, domains.column.codes, MISSING)[batch.positions]
        least = rows.variables([])
        if domains.enough:
            least = rows.variables([fewest + int(batch.counts[self.covered].sum())])
            for code in np.flatnonzero(domains.present).tolist():
                there = y[codes == code][:, self.covered].ravel()
                rows.add((least, 1), (there, -1), most=matching[code])
        for here in _by_domain(codes):
            most, there = batch.at_most(here), int(matching[codes[here[0]]])
            if not most[self.holders].any():
                continue
            free = [k for k in counted if k not in self.holders]
            # Excess allowed without a holder.
            excess = there + int(most[free].sum()) - fewest - self.max_skew
            asked = rows.variables([1] if excess > 0 else [])
            for k in self.holders if excess > 0 else ():
                rows.add((y[here, k], 1), (asked, -most[k]), most=0)
            room = self.max_skew - there + max(excess, 0)
            rows.add((y[here][:, counted], 1), (least, -1), (asked, excess), most=room)


@attrs.frozen(eq=False)
class _Together:
    """Pod affinity: holders share a topology domain with covered pods, or start a new group."""

    terms: tuple[PodAffinityTerm, ...]
    holders: _Kinds
    covered: _Kinds

    def add(self, batch: RuleRows, rows: Rows, y: Ints) -> None:
        counts = batch.scene.residents.counts(tuple(map(Selection.of, self.terms)))
        keys = sorted({term.topology_key for term in self.terms})
        sums = [batch.scene.nodes.label(key).sums(counts) for key in keys]
        found = any(there.any() for there in sums)
        # Possible first pods of a group do not open a domain to each other.
        group = [k for k in self.holders if k in self.covered]
        parts = (
            (group, [k for k in self.covered if k not in group], not found),
            ([k for k in self.holders if k not in group], self.covered, False),
        )
        for key, there in zip(keys, sums, strict=True):
            codes = batch.codes(key)
            firsts = rows.variables(np.full(int(codes.max(initial=0)) + 1, int(not found)))
            rows.add((firsts, 1), most=1)
            for here in _by_domain(codes):
                code, most = codes[here[0]], batch.at_most(here)
                for members, others, may_begin in parts if not there[code] else ():
                    is_open = rows.variables([1])
                    first = firsts[code : code + 1] if may_begin else firsts[:0]
                    rows.add((is_open, 1), (y[here][:, others], -1), (first, -1), most=0)
                    for k in members:
                        rows.add((y[here, k], 1), (is_open, -most[k]), most=0)


def _by_domain(codes: Codes) -> Iterator[Positions]:
    for code in sorted({*codes[codes != MISSING].tolist()}):
        yield np.flatnonzero(codes == code)


def sample_classes(
    problem: PlacementProblem, likes: Iterable[EquivalenceClass], scene: Scene, few: int
) -> Mask:
    """Return sampled nodes, up to `few` of each node class, to reduce the integer programme.

    Nodes of a class are equivalent for the batch: identical pods, capacity and topology domains.
    """
    rules = [like.rules for like in likes]
    positions = problem.rows.positions
    sorts = [problem.free.T, problem.fitting.T, problem.penalties.T]
    for key in dict.fromkeys(key for of_kind in rules for key in node_labels(of_kind)):
        codes = scene.nodes.label(key).codes
        alone = np.bincount(codes)[codes] == 1
        sorts.append(np.where(alone, -1, codes)[None, positions])
    looks = {tuple(map(Selection.of, of_kind.affinity)) for of_kind in rules}
    looks |= {
        (Selection.of_spread(constraint),) for of_kind in rules for constraint in of_kind.spread
    }
    sorts += [scene.residents.counts(look)[None, positions] for look in looks if look]
    _, sort = group_equal_rows(*(each.T for each in sorts))
    return count_before(sort).argsort(kind="stable").argsort() < few


def complete_values(made: IntegerChoice, loads: Ints, bounds: Bounds) -> Ints | None:
    """Return the values of all variables of the integer programme for the given pod counts by node;
    None if infeasible.
    """
    upper = made.programme.upper.copy()
    if bounds.solver is None or (loads > upper[made.loads]).any():
        return None
    upper[made.loads] = loads
    weights = np.zeros_like(upper)
    weights[made.loads] = 1
    only = attrs.evolve(made.programme, upper=upper).at_least(weights, int(loads.sum()))
    return bounds.solver.maximise(only, np.zeros_like(upper), bounds.deadline).values


#: Nodes times kinds above which the solver gets a sample of nodes first.
_MANY = 2_000


def decide_ruled(batch: Batch, set_aside: Sequence[Pod]) -> Decision:
    """Decide on a batch with affinity, spread or port rules between pods; set_aside: pods larger
    than any node.
    """
    ruled = _Ruled(batch, Feasibility.of(batch.snapshot))
    if len(batch.pods) == 1:
        return ruled.decision(ruled.one_at_a_time(Choice((), Proof())), Proof(), set_aside)
    choice, indifferent = ruled.first_choice()
    # The integer programme has no near shares.
    solver = batch.bounds.solver if batch.sites is None else None
    best = first = ruled.keep(choice, restart=solver is None)
    bounding = [first.choice]
    if solver is not None and not first.as_planned:
        for attempt in ruled.other_attempts(first):
            best = max(best, attempt, key=ruled.merit)
            bounding += [attempt.choice] if attempt.bounding else []
            if ruled.proof(best, bounding).qos:
                break
    proof = ruled.proof(best, bounding)
    if not (proof.placed and proof.qos):
        # Ties go to the first: the floor must be better.
        best = max(best, ruled.one_at_a_time(first.choice), key=ruled.merit)
        proof = ruled.proof(best, bounding)
    if best is first and indifferent:
        proof = attrs.evolve(proof, preferences=False, spread=False, fragmentation=False)
    decision = ruled.decision(best, proof, set_aside)
    if proof.placed and proof.qos:
        return decision
    # The last selection has the constraints as rows.
    bounded = (c for c in reversed(bounding) if all(e.bound is not None for e in c.certificates))
    certificates = batch.certificates(decision.bindings, next(bounded, first.choice), proof)
    return attrs.evolve(decision, certificates=certificates)


@attrs.frozen(eq=False)
class _Ruled:
    batch: Batch
    feasibility: Feasibility

    def first_choice(self) -> tuple[Choice, bool]:
        """Choose nodes without constraints between pods; also return if penalties were ignored.

        Preference penalties increase the number of kinds, so the exact-search limit is exceeded
        sooner.
        Then nodes are also chosen without penalties, since penalties must not cost placed pods or
        QoS.
        """
        liked = self.group_kinds()
        # The constraints between pods need the rest of the time.
        batch = attrs.evolve(self.batch, bounds=self.batch.bounds.part(0.25))
        choice = batch.choice(liked)
        if choice.proven or not any(kind.penalties for kind in liked):
            return choice, False
        indifferent = batch.choice(self.group_kinds(preferences=False))
        with_it, without = map(batch.standing, map(batch.bindings, (choice, indifferent)))
        better = without > with_it
        return (indifferent, True) if indifferent.proven or better else (choice, False)

    def group_kinds(self, **how: bool) -> tuple[Kind, ...]:
        """Group the batch into kinds with constraints between pods (see `group_ruled_kinds`)."""
        batch, deadline = self.batch, self.batch.bounds.deadline
        surroundings = batch.snapshot.surroundings
        return group_ruled_kinds(
            batch.pods, self.feasibility, surroundings, batch.ranks, deadline=deadline, **how
        )

    def keep(self, choice: Choice, *, restart: bool) -> Attempt:
        """Repair a placement choice under rules between pods; return the permitted placement."""
        return keep_rules(self.batch, self.feasibility, choice, restart=restart)

    def other_attempts(self, first: Attempt) -> Iterator[Attempt]:
        """Yield alternative placements: by the solver on sampled nodes, then by restarts."""
        batch_kinds = self.group_kinds(distinguish=True)
        rows = self.batch.edge + self.batch.cloud
        whole = PlacementProblem.of(batch_kinds, rows)
        # The rest of the time is for restarts without the solver.
        bounds = self.batch.bounds.part(0.5)
        if len(rows.positions) * len(batch_kinds) > _MANY:
            likes = [self.feasibility.equivalence(kind.pods[0]) for kind in batch_kinds]
            some = self.feasibility.index.match_names(node for _, node in first.placed)
            few = sample_classes(whole, likes, self.feasibility.scene, _MANY // len(batch_kinds))
            some[rows.positions[few]] = True
            for attempt in self._solve_on(some, batch_kinds, first, bounds.part(0.5)):
                yield attrs.evolve(attempt, bounding=False)
        if len(rows.positions) * len(batch_kinds) <= MOST_VARIABLES:
            every = self.feasibility.index.every()
            yield from self._solve_on(every, batch_kinds, first, bounds)
        if not self.batch.bounds.deadline.passed:
            yield self.keep(first.choice, restart=True)

    def _solve_on(
        self,
        nodes: Mask,
        batch_kinds: Sequence[Kind],
        first: Attempt,
        bounds: Bounds,
    ) -> Iterator[Attempt]:
        """Enumerate solver placements on the given nodes, starting from a previous placement.

        The first satisfies all constraints in the final state. If kube-scheduler is more lenient,
        the second satisfies the constraints of each pod at arrival only.
        """
        edge, cloud = (
            PlacementProblem.of(batch_kinds, rows.only(nodes))
            for rows in (self.batch.edge, self.batch.cloud)
        )
        rule_rows, attempt = RuleRows.of(self.feasibility, edge, cloud), first
        for sound in (True, False) if rule_rows.lenient else (True,):
            if bounds.deadline.passed:
                break
            rules = attrs.evolve(rule_rows, sound=sound)
            choice = self._solve(edge, cloud, bounds, rules.add, attempt)
            if choice is not None:
                bounding = not (sound and rules.lenient)
                attempt = self.keep(choice, restart=not sound)
                attempt = attrs.evolve(attempt, bounding=bounding)
                yield attempt

    def _solve(
        self,
        edge: PlacementProblem,
        cloud: PlacementProblem,
        bounds: Bounds,
        also: Also,
        begun: Attempt,
    ) -> Choice | None:
        """Return the solver's choice, no worse than the start solution; None without a result."""
        batch = self.batch
        members = list_demands(edge, batch.shares, batch.qos_targets, batch.objective)
        made = build_programme(edge, cloud, members, batch.objective, also)
        loads = np.concatenate([tier.count_loads(begun.placed) for tier in (edge, cloud)])
        hint = complete_values(made, loads, bounds)
        found = maximise_in_order(made.programme, made.goals, bounds.solver, bounds.deadline, hint)
        if found.values is None:
            return None
        on_edge, in_cloud = np.split(found.values[made.loads], [len(edge.nodes)])
        placement = Placement(made.picks(found.values), on_edge, in_cloud)
        parts = divide_placement(Columns.of_kinds(edge), cloud, placement)
        if batch.spread is None:
            targets = [problem.targets(of, pods) for problem, of, pods in parts]
        else:
            there = batch.spread.copy()
            targets = [TierAssignment.of(*part, there).targets for part in parts]
        proof = derive_proof(found.certificates)
        told = tuple(c for c in found.certificates if c.goal in (PLACED, QOS) and not c.proven)
        return Choice((*targets[0], *targets[1]), proof, told)

    def merit(self, attempt: Attempt) -> tuple[object, ...]:
        """Sort key of attempts: satisfied constraints before QoS, unless time is exceeded."""
        placed, worth = self.batch.standing(self.batch.bindings_at(attempt.placed))
        return placed, attempt.sound and attempt.choice.proof.qos, worth, attempt.as_planned

    def proof(self, attempt: Attempt, bounding: Iterable[Choice]) -> Proof:
        """Return the proof of optimality; bounding: choices with the greatest possible value."""
        bindings = self.batch.bindings_at(attempt.placed)
        proof, reached = self.batch.plain_proof(bindings), self.batch.standing(bindings)
        if attempt.as_planned and attempt.bounding:
            proof = proof.or_else(attempt.choice.proof)
        for choice in bounding:
            bound = self.batch.standing(self.batch.bindings(choice))
            if choice.proof.placed and reached[0] == bound[0]:
                qos = proof.qos or (choice.proof.qos and reached == bound)
                proof = attrs.evolve(proof, placed=True, qos=qos)
        return proof

    def one_at_a_time(self, choice: Choice) -> Attempt:
        """Return the placement by one-pod-at-a-time scheduling, the lower bound for decisions."""
        settling = place_one_at_a_time(self.batch, self.feasibility)
        return Attempt(choice, settling, as_planned=False, sound=settling.sound, bounding=False)

    def decision(self, best: Attempt, proof: Proof, set_aside: Sequence[Pod]) -> Decision:
        """Convert a repaired placement to the placement decision on the batch."""
        batch, bindings = self.batch, self.batch.bindings_at(best.placed)
        out = [pod for pod in batch.pods if pod.uid not in best.settling.placed]
        unplaced: dict[Uid, Mapping[NodeName, Rejection]] = {
            pod.uid: best.settling.rejections(pod) for pod in out
        }
        unplaced |= batch.why_not(bindings, set_aside) if set_aside else {}
        return batch.decision(bindings, unplaced, proof)
