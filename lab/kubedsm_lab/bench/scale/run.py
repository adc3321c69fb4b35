"""All that is measured at a size."""

import asyncio
import random

from kubedsm.process.clock import SystemClock
from kubedsm_lab.bench.scale import running
from kubedsm_lab.bench.scale.deciding import decided
from kubedsm_lab.bench.scale.paired import ScaleResult
from kubedsm_lab.bench.scale.reading import read
from kubedsm_lab.bench.scale.world import Size


def run(size: Size, *, rounds: int, suggestions: int, seconds: float) -> ScaleResult:
    """Of suggestions there are fewer rounds, for they take long; without seconds no process is run.

    Not to be called from a running event loop. Raises DisagreementError, and what `running` does.
    """
    pairs = (*read(size, rounds), *decided(size, rounds, suggestions))
    if not seconds:
        return ScaleResult(size, pairs)
    process = running.run(size, SystemClock(), random.Random(0), seconds)
    return ScaleResult(size, pairs, asyncio.run(process))
