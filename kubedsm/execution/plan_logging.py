"""Which plan a line of the log is about: each line that is logged meanwhile says so."""

from collections.abc import Iterator
from contextlib import contextmanager

from structlog import contextvars


@contextmanager
def plan_logged(plan_id: str | None) -> Iterator[None]:
    """Have every line name the plan, those of tasks that are begun meanwhile too; None for none."""
    before = contextvars.bind_contextvars(plan=plan_id)
    if plan_id is None:
        contextvars.unbind_contextvars("plan")
    try:
        yield
    finally:
        contextvars.reset_contextvars(**before)
