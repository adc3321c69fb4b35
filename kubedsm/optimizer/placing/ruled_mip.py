"""Integer programme with rules between pods, for batches whose first plan breaks them.

Rules are added as rows where a plan could not be kept, until it can. All placements in which each
pod keeps its rules as it comes satisfy the rows, so bounds hold; feasibility is checked by
settling.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import Self, TypeVar

import attrs
import numpy as np

from kubedsm.model.model import Pod, PodAffinityTerm, SpreadConstraint
from kubedsm.model.node_index import MISSING, Codes, Ints, Mask, Positions
from kubedsm.model.residents import Selection
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.matching.problem import Packing
from kubedsm.optimizer.placing.batch_mip import (
    IntegerChoice,
)
from kubedsm.optimizer.placing.decision import Choice
from kubedsm.optimizer.placing.rule_keeping import Kept
from kubedsm.optimizer.programming.programme import UNBOUNDED, Rows
from kubedsm.plugins.feasibility import Feasibility
from kubedsm.plugins.fit import ports_clash
from kubedsm.plugins.plugin import EquivalenceClass, Scene, node_labels
from kubedsm.plugins.spread import Domains, domains_of
from kubedsm.plugins.volumes import is_shared_disk

_T = TypeVar("_T", bound=Hashable)
#: Of S kinds, some.
_Kinds = list[int]


@attrs.frozen(eq=False)
class RuleRows:
    """Rules of S kinds on N nodes; each kind is one equivalence class."""

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
    def of(cls, feasibility: Feasibility, edge: Packing, cloud: Packing) -> Self:
        """Build from packings with the same kinds; edge nodes come first."""
        packings = edge, cloud
        return cls(
            feasibility.scene,
            [feasibility.equivalence(kind.pods[0]) for kind in edge.kinds],
            np.concatenate([packing.rows.positions for packing in packings]),
            np.concatenate([packing.fitting for packing in packings]),
            edge.counts,
        )

    @property
    def lenient(self) -> bool:
        """True if pods without a spread constraint may break it by coming later."""
        return any(not set(rule.covered).issubset(rule.holders) for rule in self._list_even())

    def add(self, rows: Rows, y: Ints, concerned: Collection[EquivalenceClass]) -> None:
        """Add rows for all rules of, or about, one of the classes.

        y: N x S, variables for the pods of a kind on a node.
        """
        about = {k for k, like in enumerate(self.likes) if like in concerned}
        rules: Iterable[_Apart | _Even | _Together]
        rules = *self._list_apart(), *self._list_even(), *self._list_together()
        for rule in rules:
            if not about.isdisjoint((*rule.holders, *rule.covered)):
                rule.add(self, rows, y)

    def at_most(self, here: Positions) -> Ints:
        """Return S, how many pods of each kind the nodes accept."""
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
                s.covers(like.namespace, like.label_map(), self.scene.surroundings)
                for s in selections
            )
        ]

    def _list_holders(self, of: Callable[[EquivalenceClass], Iterable["_T"]]) -> dict["_T", _Kinds]:
        """Return which kinds have which property."""
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
    """Anti-affinity, ports and disks: no holder shares a domain with another covered pod."""

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
    """Spread: no domain with a holder has too many covered pods."""

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
    """Affinity: holders are in domains with covered pods, or one is the first of its group."""

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
    for code in np.unique(codes[codes != MISSING]).tolist():
        yield np.flatnonzero(codes == code)


def sample_classes(
    packing: Packing, likes: Iterable[EquivalenceClass], scene: Scene, few: int
) -> Mask:
    """Return N, up to `few` nodes of each node class, for programmes with too many nodes.

    Nodes are a class if a batch cannot tell them apart: equal pods, capacity and domains.
    """
    rules = [like.rules for like in likes]
    positions = packing.rows.positions
    sorts = [packing.free.T, packing.fitting.T, packing.penalties.T]
    for key in dict.fromkeys(key for of_kind in rules for key in node_labels(of_kind)):
        codes = scene.nodes.label(key).codes
        alone = np.bincount(codes)[codes] == 1
        sorts.append(np.where(alone, -1, codes)[None, positions])
    looks = {tuple(map(Selection.of, of_kind.affinity)) for of_kind in rules}
    looks |= {
        (Selection(constraint.selector, (constraint.namespace,)),)
        for of_kind in rules
        for constraint in of_kind.spread
    }
    sorts += [scene.residents.counts(look)[None, positions] for look in looks if look]
    _, sort = np.unique(np.concatenate(sorts), axis=1, return_inverse=True)
    return _count_before(sort.ravel()).argsort(kind="stable").argsort() < few


def _count_before(sort: Ints) -> Ints:
    """Return the number of equal values before each."""
    order = sort.argsort(kind="stable")
    first = np.searchsorted(sort[order], sort[order])
    number = np.empty_like(sort)
    number[order] = np.arange(len(sort)) - first
    return number


@attrs.frozen(eq=False)
class Attempt:
    """Choice, and what of it keeps the rules."""

    choice: Choice
    kept: Kept
    #: whether the choice bounds all placements
    bounding: bool = True

    @property
    def moved(self) -> Iterator[Pod]:
        """Pods that are not where they were planned."""
        homes = {pod.uid: node for pod, node in self.kept.placed}
        for pod, node in (*self.choice.edge, *self.choice.cloud):
            if homes.get(pod.uid) != node:
                yield pod


def count_loads(edge: Packing, cloud: Packing, kept: Kept) -> Ints:
    """Return N x S of edge and cloud."""
    rows = {node.name: at for at, node in enumerate((*edge.nodes, *cloud.nodes))}
    kinds = {pod.uid: number for number, kind in enumerate(edge.kinds) for pod in kind.pods}
    loads = np.zeros((len(rows), len(edge.kinds)), dtype=np.int64)
    for pod, node in kept.placed:
        if node in rows:
            loads[rows[node], kinds[pod.uid]] += 1
    return loads


def complete_values(made: IntegerChoice, loads: Ints, bounds: Bounds) -> Ints | None:
    """Return all values for the loads; None if the programme does not allow them."""
    upper = made.programme.upper.copy()
    if bounds.solver is None or (loads > upper[made.loads]).any():
        return None
    upper[made.loads] = loads
    columns, ones = made.loads.ravel(), np.ones(loads.size, dtype=np.int64)
    only = attrs.evolve(made.programme, upper=upper)
    only = only.with_row(columns, ones, int(loads.sum()), UNBOUNDED)
    return bounds.solver.maximise(only, np.zeros_like(upper), bounds.deadline).values
