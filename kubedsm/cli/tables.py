"""Tables shared by the reports of `kubedsm place` and `kubedsm suggest`."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from rich.console import RenderableType
from rich.text import Text

from kubedsm.cli.console import print_json
from kubedsm.model.model import Share, Workload
from kubedsm.optimizer.programming.in_order import Certificate
from kubedsm.planner.plurals import counted
from kubedsm.terminal.console import Console
from kubedsm.terminal.fitted_table import FittedTable, table


class Report(Protocol):
    def as_json(self) -> dict[str, Any]: ...


R = TypeVar("R", bound=Report)


def print_timed(
    decide: Callable[[], R], tables: Callable[[R, float], RenderableType], output: str
) -> R:
    """Compute a decision, print its report as JSON or tables with the elapsed milliseconds, and
    return the report.
    """
    started = time.perf_counter()
    report = decide()
    elapsed = 1000 * (time.perf_counter() - started)
    if output == "json":
        print_json(report.as_json() | {"elapsedMs": round(elapsed, 3)})
    else:
        Console().print(tables(report, elapsed))
    return report


def list_unproven(certificates: Iterable[Certificate]) -> list[Text]:
    """Return a line per optimisation goal without proven optimality, with the remaining bound."""
    return [Text(each.words) for each in certificates if not each.proven]


def refer_to_packing(number: int) -> list[Text]:
    """Return a line that names the command for pods that stay pending without migrations of others;
    none for no pod.
    """
    if not number:
        return []
    pods = counted(number, "pending pod")
    return [Text(f"Not evaluated: migrations that free capacity for {pods}; see `kubedsm pack`.")]


def name_workloads(workloads: Iterable[Workload]) -> dict[Workload, str]:
    """Return the names of workloads, with the kind where several have the same name."""
    listed = list(workloads)
    times = Counter(map(str, listed))
    return {w: str(w) if times[str(w)] == 1 else f"{w.kind.lower()}/{w}" for w in listed}


def shares_table(before: Mapping[Workload, Share], after: Mapping[Workload, Share]) -> FittedTable:
    """Return a table of each workload's edge share before and after the decision."""
    names = name_workloads(after)
    rows = (
        (names[workload], *(f"{share.edge}/{share.total}" for share in (before[workload], later)))
        for workload, later in after.items()
    )
    headings = ("workload", "before", "after")
    return table(headings, rows, title="edge share", numbers=headings[1:])
