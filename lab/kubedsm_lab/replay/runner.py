"""Many runs, spread over processes; their results in the order of the runs."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from threading import Thread
from typing import Any, TypeVar

import attrs
import structlog

from kubedsm_lab.replay.filming import Camera
from kubedsm_lab.replay.measures import Measures, measure
from kubedsm_lab.replay.world import Run, play

T = TypeVar("T")
R = TypeVar("R")
Placements = dict[str, list[tuple[float, int, int]]]


@attrs.frozen
class Outcome:
    scenario: str
    policy: str
    seed: int
    measures: Measures
    #: per service: from when on it had how many Ready pods on the edge, and in all; seconds
    placements: Placements
    #: the end of the scenario, seconds
    end: float
    #: messages, one a line; empty if there is no film of it
    film: bytes = b""

    def as_json(self) -> dict[str, Any]:
        return self._name | self.measures.as_json()

    def timeline_json(self) -> dict[str, Any]:
        return self._name | {"end": self.end, "services": self.placements}

    @property
    def _name(self) -> dict[str, Any]:
        return {"scenario": self.scenario, "policy": self.policy, "seed": self.seed}


def carry_out(run: Run) -> Outcome:
    camera = Camera() if run.filmed else None
    record = play(run, camera)
    timeline = record.timeline
    return Outcome(
        run.name,
        run.policy,
        run.seed,
        measure(run, record),
        timeline.placements(),
        timeline.end,
        camera.lines() if camera else b"",
    )


def spread(work: Callable[[T], R], items: Sequence[T], jobs: int, chunk: int = 1) -> Iterator[R]:
    """What the work makes of each item, in so many processes, each given a `chunk` at a time."""
    jobs = min(jobs, len(items))
    if jobs <= 1:
        _quieten()
        yield from map(work, items)
        return
    # Forked children would inherit whatever this process has in hand.
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin_worker)
    try:
        yield from executor.map(work, items, chunksize=chunk)
    finally:
        executor.shutdown(cancel_futures=True)


def _begin_worker() -> None:
    # Ctrl-C reaches every process of the terminal; the one that started us decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    _quieten()


def _end_with_parent() -> None:
    """One that is killed tells its workers nothing, and they would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _quieten() -> None:
    """The schedulers' logs tell of times that never were."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("CRITICAL"))


def processors() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
