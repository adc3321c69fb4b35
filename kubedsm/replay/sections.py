"""Tables under headings, as Markdown and as a page, of whatever was tried."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Generic, TypeVar

import attrs

from kubedsm.replay.page import document, figure, html_table
from kubedsm.replay.report import markdown

T = TypeVar("T")

#: headings and lines; no lines if there is nothing to tell
Table = tuple[Sequence[str], Sequence[Sequence[str]]]


@attrs.frozen
class Section(Generic[T]):
    title: str
    about: str
    table: Callable[[Sequence[T]], Table]


@attrs.frozen
class Made:
    """A section of what was tried."""

    title: str
    about: str
    table: Table


def made(sections: Sequence[Section[T]], tried: Sequence[T]) -> list[Made]:
    """All but those of which nothing was tried."""
    found = (Made(one.title, one.about, one.table(tried)) for one in sections)
    return [one for one in found if one.table[1]]


def shown(sections: Sequence[Made], level: int = 2) -> str:
    """Markdown. level: of the headings."""
    mark = "#" * level
    parts = (f"{mark} {one.title}\n\n{one.about}\n\n{markdown(*one.table)}\n" for one in sections)
    return "\n".join(parts)


def shown_on_page(sections: Sequence[Made], level: int = 2) -> str:
    """HTML. level: of the headings."""
    return "\n".join(
        f"<h{level}>{escape(one.title)}</h{level}>\n<p>{escape(one.about)}</p>\n"
        f"{html_table(*one.table)}"
        for one in sections
    )


def as_markdown(sections: Sequence[Section[T]], tried: Sequence[T], about: str) -> str:
    """How it was done, and all tables but those of which nothing was tried."""
    return f"## How\n\n{about}.\n\n{shown(made(sections, tried))}"


def as_page(
    title: str,
    sections: Sequence[Section[T]],
    tried: Sequence[T],
    about: str,
    pictures: Mapping[str, bytes] | None = None,
) -> str:
    """One HTML page that needs nothing else. pictures: PNG files by name."""
    drawn = "\n".join(figure(*each) for each in (pictures or {}).items())
    body = shown_on_page(made(sections, tried))
    return document(title, f"<p>{escape(about)}.</p>\n{body}\n{drawn}")
