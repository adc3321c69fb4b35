"""Proof of optimality of a decision, goal by goal."""

from operator import or_

import attrs

_WORDS = {
    "placed": "pods placed",
    "qos": "QoS",
    "preferences": "preferences",
    "spread": "spread",
    "fragmentation": "fragmentation",
}


@attrs.frozen(slots=True)
class Proof:
    """True if each goal is optimal, given the goals before it."""

    #: pods placed, by priority
    placed: bool = True
    #: QoS
    qos: bool = True
    #: penalties
    preferences: bool = True
    #: replica spread within each tier
    spread: bool = True
    #: fragmentation of the edge
    fragmentation: bool = True

    @property
    def whole(self) -> bool:
        return all(self.as_json().values())

    def or_else(self, other: "Proof") -> "Proof":
        """Combine the knowledge of two proofs of the same decision."""
        return Proof(*map(or_, attrs.astuple(self), attrs.astuple(other)))

    @property
    def words(self) -> str:
        """Proof as part of a sentence."""
        if self.whole:
            return "proven optimal"
        known = [_WORDS[what] for what, known in self.as_json().items() if known]
        return f"proven optimal in {' and '.join(known)} only" if known else "not proven optimal"

    def as_json(self) -> dict[str, bool]:
        return attrs.asdict(self)


NO_PROOF = Proof(*[False] * len(_WORDS))


def plain_proof(pods: int, placed: int, on_edge: int) -> Proof:
    """Return what is proven without search: all placed, or all on the edge."""
    return attrs.evolve(NO_PROOF, placed=placed == pods, qos=on_edge == pods)
