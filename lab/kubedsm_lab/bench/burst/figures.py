"""What a burst is judged by: how long its pods took, and how even they lie on the nodes."""

from collections.abc import Sequence

import numpy as np

_QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


def times(seconds: Sequence[float], pods: int) -> dict[str, float]:
    """Of so many pods, those that took that long; the others are missing.

    In milliseconds; quantiles p are interpolated linearly at rank (n - 1) p. Without any pod all
    that is said is how many are missing.
    """
    missing = {"missing": float(pods - len(seconds))}
    if not seconds:
        return missing
    found = 1000 * np.array(seconds)
    quantiles = {name: float(np.quantile(found, p)) for name, p in _QUANTILES.items()}
    return {"mean": float(found.mean()), **quantiles, "max": float(found.max()), **missing}


def evenness(amounts: Sequence[float]) -> dict[str, float]:
    """Of what each node got, at least one and something in all.

    `std` is that of the population, `cv` std / mean. `jain` is Jain's index, (sum x)^2 / (n sum
    x^2): 1 if all got the same, 1 / n if one got everything. cv = sqrt(1 / jain - 1).
    """
    found = np.array(amounts, dtype=float)
    mean, std = float(found.mean()), float(found.std())
    return {
        "nodes": float(len(found)),
        "min": float(found.min()),
        "max": float(found.max()),
        "mean": mean,
        "std": std,
        "cv": std / mean,
        "jain": float(found.sum() ** 2 / (len(found) * (found**2).sum())),
    }
