"""Tables of results as Markdown: cells, sections under headings, and legends of columns."""

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
    """Return a section per table. words: descriptive part of WORDS."""
    return [
        Section(title, WORDS[words][title], tabulate(found)) for title, tabulate in tables.items()
    ]


def select_sections(sections: Iterable[Section], titles: Sequence[str]) -> list[Section]:
    """Return the sections with these titles that have lines. Raises KeyError for an unknown one."""
    by_title = {section.title: section for section in sections}
    return [by_title[title] for title in titles if by_title[title].table[1]]


def grid(corner: str, rows: Mapping[str, T], columns: Mapping[str, Callable[[T], str]]) -> Table:
    """Return a table with one line per row and one cell per column."""
    lines = [[name, *(cell(row) for cell in columns.values())] for name, row in rows.items()]
    return [corner, *columns], lines


def render_sections(sections: Iterable[Section], level: int = 2) -> str:
    """Return Markdown without the sections that have no lines. level: of the headings."""
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
    """Return the method and all sections that have lines."""
    return f"## How\n\n{method}.\n\n{render_sections(sections)}"


def markdown(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table with numbers to the right; the empty string if there are no lines."""
    if not lines:
        return ""
    columns = list(zip(*lines, strict=True))
    rule = ["---", *("---:" if _are_numbers(column) else "---" for column in columns[1:])]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (headings, rule, *lines))


def _are_numbers(cells: Iterable[str]) -> bool:
    """Accept bold numbers and unknown ones."""
    return all(cell.lstrip("*")[:1] in "+-.0123456789" for cell in cells)


def legend(headings: Iterable[str], meanings: Mapping[str, str]) -> str:
    """Return Markdown with a line for each heading that has a meaning."""
    known = ((heading, meanings.get(heading)) for heading in headings)
    return "\n".join(f"- **{heading}**: {meaning}" for heading, meaning in known if meaning)


def lookup(row: Row, keys: Iterable[str]) -> float | None:
    """Return the number at the end of the path."""
    value: Any = row
    for key in keys:
        value = value[key]
    return None if value is None else float(value)


def number(value: float | None, digits: int) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    # Adding 0 removes the sign of a rounded zero.
    return UNKNOWN if value is None else f"{round(value, 1) + 0.0:+.1f} %"


def beside(shown: str, published: float | None, form: str = ".2f") -> str:
    """Append the published measurement in brackets, if there is one."""
    return shown if published is None else f"{shown} ({published:{form}})"


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the known values; None if there are none."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
