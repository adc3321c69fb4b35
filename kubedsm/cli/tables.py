"""Parts of a report that `kubedsm place` and `kubedsm suggest` share."""

from collections.abc import Iterable, Mapping

from rich.text import Text

from kubedsm.model.model import Share, Workload
from kubedsm.optimizer.programming.in_order import Certificate
from kubedsm.terminal.fitted_table import FittedTable, table


def list_unproven(certificates: Iterable[Certificate]) -> list[Text]:
    """Return a line per goal that is not proven optimal, with its bound."""
    return [Text(each.words) for each in certificates if not each.proven]


def shares_table(before: Mapping[Workload, Share], after: Mapping[Workload, Share]) -> FittedTable:
    """Return the edge share of each workload, before and after."""
    rows = (
        (str(workload), *(f"{share.edge}/{share.total}" for share in (before[workload], later)))
        for workload, later in after.items()
    )
    headings = ("workload", "before", "after")
    return table(headings, rows, title="edge share", numbers=headings[1:])
