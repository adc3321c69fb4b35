"""Numbers as Grafana writes them, by the unit of a panel."""

import math
from collections.abc import Sequence

_THOUSANDS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""))
_SECONDS = ((86400, "day"), (3600, "hour"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs"))
_BINARY = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))

#: by Grafana's name of the unit: its scale, and what follows
UNITS: dict[str, tuple[Sequence[tuple[float, str]], str]] = {
    "short": (((1e9, " Bil"), (1e6, " Mil"), (1e3, " K"), (1, "")), ""),
    "percentunit": (((0.01, "%"),), ""),
    "s": (tuple((size, f" {name}") for size, name in _SECONDS), ""),
    "bytes": (tuple((size, f" {name}") for size, name in _BINARY), ""),
    "Bps": (tuple((size, f" {name}B/s") for size, name in _THOUSANDS), ""),
    "ops": (tuple((size, f" {name}") for size, name in _THOUSANDS), "ops/s"),
    "reqps": (tuple((size, f" {name}") for size, name in _THOUSANDS), "req/s"),
}


def written(value: float, unit: str, decimals: int | None = None) -> str:
    """The number with three digits that tell, or as many decimals as are asked for.

    Raises KeyError for a unit that is not known.
    """
    scale, after = UNITS[unit]
    size, name = next((one for one in scale if abs(value) >= one[0]), scale[-1])
    if value == 0:
        size, name = next((one for one in scale if one[0] == 1), scale[0])
    scaled = value / size
    if decimals is None:
        digits = 2 - math.floor(math.log10(abs(scaled))) if scaled else 0
        text = f"{scaled:.{max(digits, 0)}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        text = f"{scaled:.{decimals}f}"
    return f"{text}{name}{after}"
