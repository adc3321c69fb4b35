"""Benchmark reports for terminals and as JSON, and measurement of CPU time."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import attrs
from rich.console import Group, RenderableType
from rich.text import Text

from kubedsm.solvers.process import pids
from kubedsm.terminal.fitted_table import table
from kubedsm_lab.bench.processes import cpu_seconds
from kubedsm_lab.replay.tables import Section, are_numbers

T = TypeVar("T")

#: Significant digits of measurements.
_DIGITS = 3
#: Least duration shown in minutes.
_MINUTES_FROM = 120
MACHINE_NOTE = "Nothing runs next to it: absolute figures of this machine, not ratios."


class DisagreementError(Exception):
    """Error: two implementations of one algorithm gave different results for the same instance."""


@attrs.frozen
class Report:
    """Result of a benchmark: tables and notes for the terminal, and measurements (`figures`) for
    JSON.
    """

    figures: Any
    tables: Sequence[RenderableType]
    notes: Sequence[str] = ()

    @classmethod
    def of_sections(cls, figures: Any, method: str, sections: Iterable[Section]) -> "Report":
        """Build a benchmark report: a description of the method, then the tables of all nonempty
        sections.
        """
        parts: list[RenderableType] = [Text(f"{method}.")]
        for section in sections:
            headings, lines = section.table
            if lines:
                columns = zip(headings, zip(*lines, strict=True), strict=True)
                numbers = [heading for heading, cells in columns if are_numbers(cells)]
                shown = table(headings, lines, numbers=numbers)
                parts += [Text(f"\n{section.title}", "bold"), Text(section.about), shown]
        return cls(figures, parts)

    @property
    def rendered(self) -> RenderableType:
        return Group(*self.tables, *map(Text, self.notes))


def measure_cpu(work: Callable[[], T]) -> tuple[T, float]:
    """Call `work`; return its result and the CPU seconds used by this process.

    Wall-clock time would include other processes of the machine.
    """
    started = time.process_time()
    result = work()
    return result, time.process_time() - started


def measure_with_solvers(work: Callable[[], T]) -> tuple[T, float]:
    """Call `work`; return its result and the CPU seconds used, solver processes included.

    The CPU of a solver process killed meanwhile is not counted.
    """
    before = {pid: cpu_seconds(pid) for pid in pids()}
    result, seconds = measure_cpu(work)
    return result, seconds + sum(cpu_seconds(pid) - before.get(pid, 0.0) for pid in pids())


def format_number(value: float, digits: int = _DIGITS) -> str:
    """Round to significant digits, without dropping digits before the point."""
    decimals = digits - 1 - math.floor(math.log10(abs(value))) if value else 0
    return f"{round(value, decimals):,.{max(0, decimals)}f}"


def format_duration(seconds: float) -> str:
    if seconds >= _MINUTES_FROM:
        return f"{format_number(seconds / 60)} min"
    for unit, factor in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= factor:
            return f"{format_number(seconds / factor)} {unit}"
    return f"{format_number(seconds * 1e6)} µs"
