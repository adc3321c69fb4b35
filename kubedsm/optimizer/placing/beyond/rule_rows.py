"""What the pods of a batch say of each other, as rows of the programme that places them.

Every placement that comes about with each pod keeping its rules as it comes keeps these rows, so
that what is proven with them is true; where they say too little, settling will tell. Anti-affinity,
ports and disks hold whoever comes first. A spread constraint had room for the last pod of a domain
that has it, and nowhere are there fewer pods now than there were then. A pod that had to be near to
others found one there, or was the first of its group, and there is only one.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import Self, TypeVar

import attrs
import numpy as np

from kubedsm.model.model import PodAffinityTerm, SpreadConstraint
from kubedsm.model.node_index import MISSING, Codes, Positions
from kubedsm.model.residents import Selection
from kubedsm.optimizer.matching.problem import Packing
from kubedsm.optimizer.programming.programme import Ints, Rows
from kubedsm.plugins.feasibility import EquivalenceClass, Feasibility
from kubedsm.plugins.ports import clash
from kubedsm.plugins.scene import Scene
from kubedsm.plugins.spread import Domains, domains_of
from kubedsm.plugins.volumes import shared_disk

_T = TypeVar("_T", bound=Hashable)
#: Of S kinds, some.
_Kinds = list[int]
#: variables, and what each of them counts
_Part = tuple[Ints, int]


@attrs.frozen(eq=False)
class RuleRows:
    """The rules of S kinds of pods on N nodes; each kind is of one equivalence class."""

    scene: Scene
    #: S
    likes: Sequence[EquivalenceClass]
    #: N
    positions: Positions
    #: N x S, how many of a kind the node takes, if none of another come
    most: Ints
    #: S
    counts: Ints
    #: spread constraints are kept with all others in place, not just by each pod as it comes
    sound: bool = False

    @classmethod
    def of(cls, feasibility: Feasibility, edge: Packing, cloud: Packing) -> Self:
        """Both packings have the same kinds; the nodes of the edge come first."""
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
        """Whether there is a constraint that pods without it may break when they come later."""
        return any(not set(rule.covered).issubset(rule.holders) for rule in self._uneven())

    def add(self, rows: Rows, y: Ints, concerned: Collection[EquivalenceClass]) -> None:
        """Rows for all rules that are of, or about, one of those.

        y: N x S, the variables that say how many pods of a kind are on a node.
        """
        about = {k for k, like in enumerate(self.likes) if like in concerned}
        rules: Iterable[_Apart | _Even | _Together]
        rules = *self._apart(), *self._uneven(), *self._groups()
        for rule in rules:
            if not about.isdisjoint((*rule.holders, *rule.covered)):
                rule.add(self, rows, y)

    def at_most(self, here: Positions) -> Ints:
        """S, how many of each kind these nodes take."""
        most: Ints = np.minimum(self.most[here].sum(axis=0), self.counts)
        return most

    def codes(self, key: str) -> Codes:
        codes: Codes = self.scene.nodes.label(key).codes[self.positions]
        return codes

    def _covered(self, *selections: Selection) -> _Kinds:
        return [
            k
            for k, like in enumerate(self.likes)
            if all(
                s.covers(like.namespace, like.label_map(), self.scene.surroundings)
                for s in selections
            )
        ]

    def _held(self, of: Callable[[EquivalenceClass], Iterable["_T"]]) -> dict["_T", _Kinds]:
        """Which kinds have what."""
        held: dict[_T, _Kinds] = {}
        for k, like in enumerate(self.likes):
            for what in of(like):
                held.setdefault(what, []).append(k)
        return held

    def _apart(self) -> Iterator["_Apart"]:
        for term, holders in self._held(lambda like: like.rules.anti_affinity).items():
            covered = self._covered(Selection.of(term))
            yield _Apart(self.codes(term.topology_key), holders, covered)
        each = np.arange(1, len(self.positions) + 1)
        ports = self._held(lambda like: like.rules.ports)
        for port, holders in ports.items():
            clashing = {k for other, of in ports.items() if clash(port, other) for k in of}
            yield _Apart(each, holders, sorted(clashing))
        disks = self._held(lambda like: like.rules.disks)
        for disk, holders in disks.items():
            clashing = {
                k
                for other, of in disks.items()
                if (other.kind, other.identity) == (disk.kind, disk.identity)
                and not (shared_disk(disk) and other.read_only)
                for k in of
            }
            yield _Apart(each, holders, sorted(clashing))
        for claim, holders in self._held(lambda like: like.rules.claim_keys).items():
            if any(c.once_per_pod for c in self.scene.surroundings.claims_at((claim,))):
                yield _Apart(np.ones_like(each), holders, holders)

    def _uneven(self) -> Iterator["_Even"]:
        found: dict[tuple[SpreadConstraint, bytes], _Even] = {}
        for k, like in enumerate(self.likes):
            for constraint, domains in domains_of(like, self.scene):
                key = constraint, domains.counted.tobytes()
                if key not in found:
                    covered = self._covered(domains.selection)
                    found[key] = _Even(constraint.max_skew, domains, [], covered)
                found[key].holders.append(k)
        yield from found.values()

    def _groups(self) -> Iterator["_Together"]:
        for terms, holders in self._held(lambda like: [like.rules.affinity]).items():
            if terms:
                yield _Together(terms, holders, self._covered(*map(Selection.of, terms)))


@attrs.frozen(eq=False)
class _Apart:
    """No pod of the holders is in a domain with another one that is covered."""

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
            # Whether there are any that only hold it.
            asked = rows.variables([1] if held and others else [])
            if both and (len(asked) or int(most[both].sum()) > 1):
                _at_most(rows, 1, (alone, 1), (asked, 1))
            for k in others:
                _at_most(rows, most[k], (y[here, k], 1), (alone, most[k]), (asked, most[k]))
            for k in held:
                if others:
                    _at_most(rows, 0, (y[here, k], 1), (asked, -most[k]))
                else:
                    _at_most(rows, most[k], (y[here, k], 1), (alone, most[k]))


@attrs.frozen(eq=False)
class _Even:
    """No domain with a holder has too many pods that are covered."""

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
                _at_most(rows, matching[code], (least, 1), (there, -1))
        for here in _by_domain(codes):
            most, there = batch.at_most(here), int(matching[codes[here[0]]])
            if not most[self.holders].any():
                continue
            free = [k for k in counted if k not in self.holders]
            # How far beyond that they may be where there is no holder.
            excess = there + int(most[free].sum()) - fewest - self.max_skew
            asked = rows.variables([1] if excess > 0 else [])
            for k in self.holders if excess > 0 else ():
                _at_most(rows, 0, (y[here, k], 1), (asked, -most[k]))
            room = self.max_skew - there + max(excess, 0)
            _at_most(rows, room, (y[here][:, counted], 1), (least, -1), (asked, excess))


@attrs.frozen(eq=False)
class _Together:
    """Holders are in domains that have covered pods."""

    terms: tuple[PodAffinityTerm, ...]
    holders: _Kinds
    covered: _Kinds

    def add(self, batch: RuleRows, rows: Rows, y: Ints) -> None:
        counts = batch.scene.residents.counts(tuple(map(Selection.of, self.terms)))
        keys = sorted({term.topology_key for term in self.terms})
        sums = [batch.scene.nodes.label(key).sums(counts) for key in keys]
        found = any(there.any() for there in sums)
        # Holders that could be the first of their group bring no other one to where none is.
        group = [k for k in self.holders if k in self.covered]
        parts = (
            (group, [k for k in self.covered if k not in group], not found),
            ([k for k in self.holders if k not in group], self.covered, False),
        )
        for key, there in zip(keys, sums, strict=True):
            codes = batch.codes(key)
            firsts = rows.variables(np.full(int(codes.max(initial=0)) + 1, int(not found)))
            _at_most(rows, 1, (firsts, 1))
            for here in _by_domain(codes):
                code, most = codes[here[0]], batch.at_most(here)
                for members, others, may_begin in parts if not there[code] else ():
                    is_open = rows.variables([1])
                    first = firsts[code : code + 1] if may_begin else firsts[:0]
                    _at_most(rows, 0, (is_open, 1), (y[here][:, others], -1), (first, -1))
                    for k in members:
                        _at_most(rows, 0, (y[here, k], 1), (is_open, -most[k]))


def _at_most(rows: Rows, most: int, *parts: _Part) -> None:
    columns = np.concatenate([variables.ravel() for variables, _ in parts])
    weights = np.repeat([weight for _, weight in parts], [part[0].size for part in parts])
    rows.add(columns, weights, most=int(most))


def _by_domain(codes: Codes) -> Iterator[Positions]:
    for code in np.unique(codes[codes != MISSING]).tolist():
        yield np.flatnonzero(codes == code)
