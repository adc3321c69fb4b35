"""Runs spread over processes, and their outcomes in the order of the runs."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from threading import Thread
from typing import Any, TypeVar

import attrs
import msgspec
import structlog
from rich.progress import Progress

from kubedsm.terminal.console import Console
from kubedsm_lab.replay.films import Camera
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
    #: by service: seconds, Ready pods on the edge, Ready pods in all, at each change
    placements: Placements
    #: end of the scenario, seconds
    end: float
    #: recording of the run, one message a line; empty if it was not filmed
    film: bytes = b""

    def as_json(self) -> dict[str, Any]:
        measures: dict[str, Any] = msgspec.to_builtins(self.measures)
        return self._name | measures

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
    """Map `work` over the items in up to `jobs` processes, `chunk` items at a time."""
    jobs = min(jobs, len(items))
    if jobs <= 1:
        silence_schedulers()
        yield from map(work, items)
        return
    # Forked children would inherit locks and files of this process.
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(jobs, mp_context=context, initializer=begin_worker)
    try:
        yield from executor.map(work, items, chunksize=chunk)
    finally:
        executor.shutdown(cancel_futures=True)


def begin_worker() -> None:
    """Prepare a worker process: it ignores Ctrl-C and ends with its parent."""
    # Ctrl-C reaches every process of the terminal; the parent decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    silence_schedulers()


def _end_with_parent() -> None:
    """A killed parent sends its workers no message: they would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def silence_schedulers() -> None:
    """Silence the log of schedulers in virtual time, whose moments never were."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("CRITICAL"))


def processors() -> int:
    """Return the processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def progress(doing: str, done: Iterable[T], total: int | None) -> Iterator[T]:
    """Yield the same items, counted by a bar on stderr if that is a terminal."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(doing, total=total)
        for each in done:
            yield each
            bar.advance(task)
