"""Of what a decision about a batch is known that nothing better exists."""

import attrs

_WORDS = {
    "placed": "pods placed",
    "qos": "QoS",
    "preferences": "preferences",
    "fragmentation": "fragmentation",
}


@attrs.frozen(slots=True)
class Proof:
    """Each by itself, among decisions that are as good in what stands before it."""

    #: no more pods can be placed, those of higher priority first
    placed: bool = True
    #: no greater QoS
    qos: bool = True
    #: no edge that is liked better
    preferences: bool = True
    #: no edge that is less fragmented
    fragmentation: bool = True

    @property
    def whole(self) -> bool:
        return self.placed and self.qos and self.preferences and self.fragmentation

    @property
    def words(self) -> str:
        """As a part of a sentence."""
        if self.whole:
            return "proven optimal"
        known = [_WORDS[what] for what, known in self.as_json().items() if known]
        return f"proven optimal in {' and '.join(known)} only" if known else "not proven optimal"

    def as_json(self) -> dict[str, bool]:
        return attrs.asdict(self)


NO_PROOF = Proof(placed=False, qos=False, preferences=False, fragmentation=False)


def plain_proof(pods: int, placed: int, on_edge: int) -> Proof:
    """What needs no search: that all are placed, or all on the edge, where none adds less QoS."""
    return attrs.evolve(NO_PROOF, placed=placed == pods, qos=on_edge == pods)
