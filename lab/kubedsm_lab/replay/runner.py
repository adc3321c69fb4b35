"""Parallel execution of runs in processes or on Dask, with outcomes in input order."""

import gc
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import attrs
import msgspec
import structlog
from rich.progress import Progress

from kubedsm.process.clock import SystemClock
from kubedsm.terminal.console import Console
from kubedsm.terminal.echo import echo
from kubedsm.terminal.problems import Problem
from kubedsm_lab.replay.films import Camera
from kubedsm_lab.replay.measures import Measures, measure
from kubedsm_lab.replay.world import Run, play

T = TypeVar("T")
R = TypeVar("R")
#: processes of this machine, or the address of a Dask scheduler
Workers = int | str
Placements = dict[str, list[tuple[float, int, int]]]


#: seconds
_DASK_ANSWERS_WITHIN = 5
#: seconds between two lines about the progress of a command without a terminal
PROGRESS_INTERVAL = 300.0


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
    #: recorded messages of the run, one per line; empty if not recorded
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


def choose_workers(jobs: int | None, executor: str | None) -> Workers:
    """Return the number of processes or the Dask address, from --jobs or --executor. Raises Problem
    if both are given.
    """
    if jobs and executor:
        raise Problem("--executor excludes --jobs: a Dask scheduler knows its workers")
    return executor or jobs or processors()


def spread(
    work: Callable[[T], R], items: Sequence[T], workers: Workers, chunk: int = 1
) -> Iterator[R]:
    """Yield `work(item)` for all items, computed in parallel and returned in input order; `chunk`
    items are sent at a time.
    """
    if isinstance(workers, str):
        yield from _spread_over_dask(work, items, workers)
        return
    jobs = min(workers, len(items))
    if jobs <= 1:
        silence_schedulers()
        yield from map(work, items)
        return
    executor = ProcessPoolExecutor(jobs, mp_context=_choose_context(), initializer=begin_worker)
    try:
        with warnings.catch_warnings():
            # Python 3.12 and later warn of forks next to threads of libraries, such as OpenBLAS,
            # which prepare themselves for forks.
            warnings.simplefilter("ignore", DeprecationWarning)
            results = executor.map(work, items, chunksize=chunk)
        yield from results
    finally:
        executor.shutdown(cancel_futures=True)


def _choose_context() -> multiprocessing.context.BaseContext:
    """Return how worker processes start: forked, which spares each the imports of this process.

    A child forked next to another thread of Python may inherit a lock that is held, and libraries
    of macOS do not survive a fork.
    """
    is_safe = sys.platform == "linux" and threading.active_count() == 1
    return multiprocessing.get_context("fork" if is_safe else "spawn")


def _spread_over_dask(work: Callable[[T], R], items: Sequence[T], address: str) -> Iterator[R]:
    """Map over a Dask cluster; items of a lost worker run again on another worker."""
    try:
        from distributed import Client  # noqa: PLC0415
    except ModuleNotFoundError:
        raise Problem("--executor needs Dask: pip install kubedsm-lab[dask]") from None
    try:
        client = Client(address, timeout=_DASK_ANSWERS_WITHIN)
    except (OSError, ValueError) as error:
        raise Problem(f"no Dask scheduler answers at {address}: {error}") from None
    # Closing the client cancels what has not ended.
    with client, client.get_executor() as executor:
        yield from executor.map(partial(_run_silently, work), items)


def _run_silently(work: Callable[[T], R], item: T) -> R:
    silence_schedulers()
    return work(item)


def begin_worker() -> None:
    """Prepare a worker process: ignore Ctrl-C, end with the parent, and collect garbage less often
    than interactive programs do: a ninth of the time of a chaos run.
    """
    gc.set_threshold(20_000)
    # Ctrl-C reaches every process of the terminal; the parent decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    silence_schedulers()


def _end_with_parent() -> None:
    """Exit the worker process once the parent process has ended.

    A killed parent sends no message to its workers, which would wait for work without end.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def silence_schedulers() -> None:
    """Disable log output of schedulers in virtual time, whose timestamps are not real."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("CRITICAL"))


def processors() -> int:
    """Return the number of processors available to this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_all(doing: str, work: Callable[[T], R], items: Sequence[T], workers: Workers) -> list[R]:
    """Return `work(item)` for all items, in their order; show progress meanwhile."""
    return list(progress(doing, spread(work, items, workers), len(items)))


def progress(doing: str, done: Iterable[T], total: int) -> Iterator[T]:
    """Yield the elements of `done` unchanged, and show progress."""
    with show_progress(doing, total) as advance:
        for each in done:
            yield each
            advance()


@contextmanager
def show_progress(doing: str, total: int) -> Iterator[Callable[[], object]]:
    """Show a progress bar on stderr during the block, or without a terminal a line every
    `PROGRESS_INTERVAL` seconds; yield the function that counts one more.
    """
    console, clock = Console(stderr=True), SystemClock()
    done, printed_at = 0, clock.monotonic()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(doing, total=total)

        def advance() -> None:
            nonlocal done, printed_at
            done += 1
            bar.advance(task)
            if not console.is_terminal and clock.monotonic() - printed_at >= PROGRESS_INTERVAL:
                printed_at = clock.monotonic()
                echo(f"{done:,} of {total:,} {doing}", err=True)

        yield advance
