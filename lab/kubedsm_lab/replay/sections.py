"""Tables under headings, as Markdown, of whatever was tried."""

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

import attrs

from kubedsm_lab.replay.glossary import legend
from kubedsm_lab.replay.report import markdown

T = TypeVar("T")

#: headings and lines; no lines if there is nothing to tell
Table = tuple[Sequence[str], Sequence[Sequence[str]]]


@attrs.frozen
class Section(Generic[T]):
    title: str
    about: str
    table: Callable[[Sequence[T]], Table]
    #: what headings mean that do not say it themselves
    columns: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class Made:
    """A section of what was tried."""

    title: str
    about: str
    table: Table
    #: headings, and what they mean
    columns: Mapping[str, str] = attrs.field(factory=dict)


def made(sections: Sequence[Section[T]], tried: Sequence[T]) -> list[Made]:
    """All but those of which nothing was tried."""
    found = (Made(one.title, one.about, one.table(tried), one.columns) for one in sections)
    return [one for one in found if one.table[1]]


def shown(sections: Sequence[Made], level: int = 2) -> str:
    """Markdown. level: of the headings."""
    mark = "#" * level
    parts = (
        (f"{mark} {one.title}", one.about, markdown(*one.table), legend(one.table[0], one.columns))
        for one in sections
    )
    return "\n".join("\n\n".join(filter(None, part)) + "\n" for part in parts)


def as_markdown(sections: Sequence[Section[T]], tried: Sequence[T], about: str) -> str:
    """How it was done, and all tables but those of which nothing was tried."""
    return f"## How\n\n{about}.\n\n{shown(made(sections, tried))}"
