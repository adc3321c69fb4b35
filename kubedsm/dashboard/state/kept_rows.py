"""The rows of a table as they were told last, and what is different in those of now."""

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from kubedsm.dashboard.rows import Row

R = TypeVar("R", bound=Row)
R_co = TypeVar("R_co", bound=Row, covariant=True)


class Difference(NamedTuple, Generic[R_co]):
    """Of one row; None: it was not there, or is gone."""

    before: R_co | None
    after: R_co | None


class KeptRows(Generic[R]):
    """The one owner of the rows of one table."""

    def __init__(self) -> None:
        self.rows: dict[str, R] = {}

    def replace(self, now: Mapping[str, R]) -> dict[str, Difference[R]]:
        """Have the table be that; what is different then."""
        gone: dict[str, R | None] = dict.fromkeys(self.rows.keys() - now.keys())
        return self.take({**gone, **now})

    def take(self, rows: Mapping[str, R | None]) -> dict[str, Difference[R]]:
        """Have the table have these rows, and those not that are None; what is different then."""
        different: dict[str, Difference[R]] = {}
        for key, row in rows.items():
            before = self.rows.get(key)
            if before == row:
                continue
            different[key] = Difference(before, row)
            if row is None:
                del self.rows[key]
            else:
                self.rows[key] = row
        return different
