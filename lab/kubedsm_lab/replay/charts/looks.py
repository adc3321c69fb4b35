"""One look a policy, in every picture and table: its colour, and its pattern for eyes without."""

from collections.abc import Iterable, Mapping

import attrs

from kubedsm_lab.replay.variants import CONTENDERS

#: in light and in dark: at least 3 to 1 against what they are on, and told apart by eyes that lack
#: red, green or blue; workloads on the page have the same
COLOURS = (
    ("#3c4e9d", "#5d75d2"),
    ("#b17f3a", "#f8b967"),
    ("#129b77", "#99f2d0"),
    ("#794a74", "#9e6f98"),
    ("#2472a6", "#45aef7"),
    ("#a44f54", "#ec787e"),
    ("#876f0b", "#c19f07"),
    ("#6c747f", "#a8b0bc"),
    ("#9b76d4", "#dac6ff"),
    ("#8a3e19", "#bb5c2f"),
)
#: by the number of its pattern: what is drawn over a bar, the dashes of a line, its marks
HATCHES = (
    "",
    "M0 6L6 0M-1 1L1 -1M5 7L7 5",
    "M0 0L6 6M-1 5L1 7M5 -1L7 1",
    "M3 0V6",
    "M0 3H6",
    "M0 3H6M3 0V6",
)
DASHES = ("", "7 3", "2 3", "7 3 2 3", "12 4", "4 2 1 2 1 2")
MARKS = (
    "M-4 0A4 4 0 1 0 4 0A4 4 0 1 0 -4 0Z",
    "M-3.5 -3.5H3.5V3.5H-3.5Z",
    "M0 -4.5L4.5 3.5H-4.5Z",
    "M0 -5L5 0L0 5L-5 0Z",
    "M0 4.5L4.5 -3.5H-4.5Z",
    "M-1.5 -5H1.5V-1.5H5V1.5H1.5V5H-1.5V1.5H-5V-1.5H-1.5Z",
)


@attrs.frozen
class Look:
    colour: int
    pattern: int

    @classmethod
    def numbered(cls, index: int) -> "Look":
        """Two are alike only if they are 60 apart."""
        round_, colour = divmod(index, len(COLOURS))
        return cls(colour, (colour + round_) % len(HATCHES))


_KNOWN = {name: Look.numbered(index) for index, name in enumerate(CONTENDERS)}


def looks_of(names: Iterable[str]) -> Mapping[str, Look]:
    """Policies look the same wherever they are; whoever else there is comes after them."""
    found: dict[str, Look] = {}
    for name in dict.fromkeys(names):
        others = sum(known not in _KNOWN for known in found)
        found[name] = _KNOWN.get(name) or Look.numbered(len(_KNOWN) + others)
    return found
