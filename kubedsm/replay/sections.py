"""Tables under headings, as Markdown and as a page, of whatever was tried."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Generic, TypeVar

import attrs

from kubedsm.replay.page import document, figure, html_table
from kubedsm.replay.report import markdown

T = TypeVar("T")


@attrs.frozen
class Section(Generic[T]):
    title: str
    about: str
    #: headings and lines; no lines if nothing of it was tried
    table: Callable[[Sequence[T]], tuple[Sequence[str], Sequence[Sequence[str]]]]


def as_markdown(sections: Sequence[Section[T]], tried: Sequence[T], about: str) -> str:
    """How it was done, and all tables but those of which nothing was tried."""
    made = ((one, markdown(*one.table(tried))) for one in sections)
    parts = [f"## {one.title}\n\n{one.about}\n\n{body}\n" for one, body in made if body]
    return "\n".join(["## How", "", f"{about}.", "", *parts])


def as_page(
    title: str,
    sections: Sequence[Section[T]],
    tried: Sequence[T],
    about: str,
    pictures: Mapping[str, bytes] | None = None,
) -> str:
    """One HTML page that needs nothing else. pictures: PNG files by name."""
    body = "\n".join(_section(section, tried) for section in sections)
    drawn = "\n".join(figure(*each) for each in (pictures or {}).items())
    return document(title, f"<p>{escape(about)}.</p>\n{body}\n{drawn}")


def _section(section: Section[T], tried: Sequence[T]) -> str:
    headings, lines = section.table(tried)
    if not lines:
        return ""
    title, about = escape(section.title), escape(section.about)
    return f"<h2>{title}</h2>\n<p>{about}</p>\n{html_table(headings, lines)}"
