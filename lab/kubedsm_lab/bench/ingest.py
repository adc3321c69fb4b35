"""What one event of a watch costs: kubernetes_asyncio's typed models beside our wire layer.

Both sides get the same bytes. Theirs does with a line what `kubernetes_asyncio.watch.Watch` does
with one, for a V1Pod; ours makes the core's Pod of it.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import attrs
from kubernetes_asyncio.watch import Watch

from kubedsm.kube.wire import decoding
from kubedsm_lab.bench.telling import many, span, times_as_long
from kubedsm_lab.bench.watched_pods import watch_line


@attrs.frozen(slots=True)
class IngestResult:
    """Microseconds of one core per event; each the best of the rounds."""

    events: int
    rounds: int
    bytes_per_event: float
    models_us: float
    wire_us: float

    @property
    def ratio(self) -> float:
        """How many events the wire layer reads in the time of one typed model."""
        return self.models_us / self.wire_us

    def as_json(self) -> dict[str, Any]:
        return {
            "events": self.events,
            "bytesPerEvent": round(self.bytes_per_event),
            "typedModelsUs": round(self.models_us, 2),
            "wireUs": round(self.wire_us, 2),
            "ratio": round(self.ratio, 1),
        }

    @property
    def sentences(self) -> list[str]:
        return [
            (
                f"A watch line of a pod, of {self.bytes_per_event:,.0f} bytes, was read in"
                f" {span(self.wire_us / 1e6)}; kubernetes_asyncio's typed models took"
                f" {span(self.models_us / 1e6)}: {times_as_long(self.ratio)}. Times are of CPU: the"
                f" best of {many(self.rounds, 'round')} of {many(self.events, 'line')}."
            )
        ]


def run(
    *,
    events: int = 400,
    rounds: int = 5,
    seed: int = 0,
    timer: Callable[[], float] = time.process_time,
) -> IngestResult:
    """Measure both sides on `events` different pods, in turns, `rounds` times.

    Not to be called from a running event loop: `Watch` wants one of its own.
    """
    rng = random.Random(seed)
    lines = [watch_line(rng) for _ in range(events)]
    return asyncio.run(_measured(lines, rounds, timer))


async def _measured(
    lines: Sequence[bytes], rounds: int, timer: Callable[[], float]
) -> IngestResult:
    async with Watch("V1Pod") as watch:

        def model(line: bytes) -> Any:
            return watch.unmarshal_event(line.decode("utf8"), "V1Pod")["object"]

        for line in lines:
            read, theirs = decoding.pod_line(line), model(line).metadata
            if not isinstance(read, decoding.Applied) or read.object.uid != theirs.uid:
                raise ValueError(f"the two sides read different pods from {line!r}")
        pairs = [
            (_spent(model, lines, timer), _spent(decoding.pod_line, lines, timer))
            for _ in range(rounds)
        ]
    each = 1e6 / len(lines)
    return IngestResult(
        events=len(lines),
        rounds=rounds,
        bytes_per_event=sum(map(len, lines)) / len(lines),
        models_us=min(theirs for theirs, _ in pairs) * each,
        wire_us=min(ours for _, ours in pairs) * each,
    )


def _spent(
    read: Callable[[bytes], object], lines: Sequence[bytes], timer: Callable[[], float]
) -> float:
    began = timer()
    for line in lines:
        read(line)
    return timer() - began
