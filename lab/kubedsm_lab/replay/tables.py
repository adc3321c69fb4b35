"""Markdown tables of results: cells, sections under headings, and legends of columns."""

import random
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any, TypeVar

import attrs
import msgspec

T = TypeVar("T")
#: line of a report, such as a mean
Row = Mapping[str, Any]
#: headings and lines; no lines if there is nothing to show
Table = tuple[Sequence[str], Sequence[Sequence[str]]]
UNKNOWN = "-"
#: resamples of a bootstrap interval
_DRAWS = 2000
#: texts of sections by title, and meanings of headings
WORDS = msgspec.toml.decode(
    (files(__package__) / "words.toml").read_bytes(), type=dict[str, dict[str, str]]
)


@attrs.frozen
class Section:
    title: str
    about: str
    table: Table
    #: meaning of each heading that needs an explanation
    columns: Mapping[str, str] = attrs.field(factory=dict)


def fill_sections(
    words: str, tables: Mapping[str, Callable[[T], Table]], found: T
) -> list[Section]:
    """Build a section with heading, description and table for each title; `words` selects the
    descriptions in WORDS.
    """
    return [
        Section(title, WORDS[words][title], tabulate(found)) for title, tabulate in tables.items()
    ]


def grid(corner: str, rows: Mapping[str, T], columns: Mapping[str, Callable[[T], str]]) -> Table:
    """Return a table with one line per row; the functions in `columns` compute the cells from the
    row's value.
    """
    lines = [[name, *(cell(row) for cell in columns.values())] for name, row in rows.items()]
    return [corner, *columns], lines


def render_sections(sections: Iterable[Section], level: int = 2) -> str:
    """Render the nonempty sections as Markdown, with headings of `level`."""
    parts = (
        (
            f"{'#' * level} {section.title}",
            section.about,
            markdown(*section.table),
            legend(section.table[0], section.columns),
        )
        for section in sections
        if section.table[1]
    )
    return "\n".join("\n\n".join(filter(None, part)) + "\n" for part in parts)


def as_markdown(sections: Iterable[Section], method: str) -> str:
    """Render the description of the method and all nonempty table sections as Markdown."""
    return f"## How\n\n{method}.\n\n{render_sections(sections)}"


def markdown(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Render a table as Markdown, with numbers aligned right; "" without lines."""
    if not lines:
        return ""
    columns = list(zip(*lines, strict=True))
    rule = ["---", *("---:" if are_numbers(column) else "---" for column in columns[1:])]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (headings, rule, *lines))


def are_numbers(cells: Iterable[str]) -> bool:
    """Return whether all cells are numbers, bold or unknown ones included."""
    return all(cell.lstrip("*")[:1] in "+-.0123456789" for cell in cells)


def legend(headings: Iterable[str], meanings: Mapping[str, str]) -> str:
    """Render a list of the headings with their meanings, as Markdown."""
    known = ((heading, meanings.get(heading)) for heading in headings)
    return "\n".join(f"- **{heading}**: {meaning}" for heading, meaning in known if meaning)


def lookup(row: Row, keys: Iterable[str]) -> float | None:
    """Return the number in a result row at a path of keys, such as (latencyMs, mean); None if
    unknown.
    """
    value: Any = row
    for key in keys:
        value = value[key]
    return None if value is None else float(value)


def number(value: float | None, digits: int) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def cell(digits: int, *keys: str) -> Callable[[Row], str]:
    """Return the function that formats the number of a row at a path of keys (`lookup`)."""
    return lambda row: number(lookup(row, keys), digits)


def percent(value: float | None) -> str:
    # Adding 0 removes the sign of a rounded zero.
    return UNKNOWN if value is None else f"{round(value, 1) + 0.0:+.1f} %"


def beside(shown: str, published: float | None, form: str = ".2f") -> str:
    """Return the cell's text followed by the published value in brackets, if there is a published
    value.
    """
    return shown if published is None else f"{shown} ({published:{form}})"


def bootstrap_interval(
    values: Sequence[T], figure: Callable[[Sequence[T]], float]
) -> tuple[float, float] | None:
    """Return the 95% percentile bootstrap interval of a figure of independent values; None for
    fewer than three.

    Source: Efron, "Bootstrap methods", 1979. The resampling draws are always the same.
    """
    if len(values) < 3:  # noqa: PLR2004 - two values tell nothing of their spread
        return None
    rng = random.Random(0)
    found = sorted(figure(rng.choices(values, k=len(values))) for _ in range(_DRAWS))
    outside = round(_DRAWS * (1 - 0.95) / 2)
    return found[outside], found[-1 - outside]


def with_interval(values: Sequence[float], digits: int, form: str = "[{}, {}]") -> str:
    """Return the mean of independent values, with its 95% interval if there are enough values."""
    shown, interval = number(mean(values), digits), bootstrap_interval(values, statistics.fmean)
    if interval is None:
        return shown
    # Adding 0 removes the sign of a rounded zero.
    least, most = (number(round(value, digits) + 0.0, digits) for value in interval)
    return f"{shown} {form.format(least, most)}"


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None; None if there are no such values."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
