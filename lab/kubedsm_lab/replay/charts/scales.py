"""Where an axis has its figures."""

import math

_STEPS = (1, 2, 2.5, 5, 10)


def ticks(top: float, number: int, base: float = 0.0) -> list[float]:
    """Round, about so many: the first at or below the base, the last at or above the top."""
    if top <= base:
        return [base, base + 1.0]
    rough = (top - base) / number
    tens = 10.0 ** math.floor(math.log10(rough))
    step = next(tens * each for each in _STEPS if tens * each >= rough * 0.999)
    first, last = math.floor(base / step), math.ceil(top / step * 0.9999)
    return [step * index for index in range(first, last + 1)]


def figure(value: float) -> str:
    """Of an axis."""
    return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"  # noqa: PLR2004 - digits
