"""Explanation of a pod, node, workload, migration or decision: title, sentences, tables, links.

Each explanation has a single origin. Command line, page and Events render the same value.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Generic, Literal, TypeAlias, TypeVar

import msgspec

from kubedsm.planner.plurals import short_number
from kubedsm.process.clock import rfc3339

F_co = TypeVar("F_co", covariant=True)

#: names in a list, before the others are only counted
_NAMED = 8


class Link(msgspec.Struct, frozen=True, omit_defaults=True):
    """Reference from an explanation to another pod, node, workload, migration, decision or time."""

    kind: Literal["pod", "node", "workload", "move", "decision", "moment"]
    #: key of the subject: for decisions the number, for moments the seconds since the epoch
    key: str
    #: empty for a moment, which the reader's time zone formats
    text: str = ""


#: a sentence, or part of one
Words: TypeAlias = tuple[str | Link, ...]


class Table(msgspec.Struct, frozen=True):
    headings: tuple[str, ...]
    rows: tuple[tuple[Words, ...], ...]


class Section(msgspec.Struct, frozen=True, omit_defaults=True):
    title: str
    lines: tuple[Words, ...] = ()
    table: Table | None = None
    #: text to be copied
    code: str = ""
    #: initially collapsed, if supported by the renderer
    folded: bool = False


class Explanation(msgspec.Struct, Generic[F_co], frozen=True, omit_defaults=True):
    title: str
    #: sentences, the main one first
    lines: tuple[Words, ...]
    sections: tuple[Section, ...] = ()
    #: underlying typed facts of the sentences
    facts: F_co | None = None


def link(kind: Literal["pod", "node", "workload"], name: object) -> Link:
    """Return a link whose text is the name."""
    return Link(kind, str(name), str(name))


def decision_link(number: int, text: str = "decision") -> Link:
    return Link("decision", str(number), f"{text} {number}")


def moment(at: float | str) -> Link | str:
    """Return a link to a time (seconds since the epoch, or RFC 3339); other text unchanged."""
    try:
        seconds = datetime.fromisoformat(at).timestamp() if isinstance(at, str) else at
    except ValueError:
        return str(at)
    return Link("moment", f"{seconds:.3f}")


def join_links(links: Sequence[Link]) -> Words:
    """Join the first links of a list with commas, and count the others."""
    words: list[str | Link] = []
    for link in links[:_NAMED]:
        words += [", ", link] if words else [link]
    if len(links) > _NAMED:
        words.append(f" and {len(links) - _NAMED} more")
    return tuple(words)


def percent(part: float) -> str:
    return f"{round(100 * part, 1):g}%"


def amount(resource: str, number: int, of: int | None = None) -> str:
    """Format a resource amount, such as `1.5 of 4 cpu`; `of`: the node's total."""
    scale, unit = 1.0, resource
    if resource == "cpu":
        scale = 1000.0
    elif resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        scale, unit = 2.0**30, f"GiB {resource}"
    text = short_number(number / scale)
    return f"{text} {unit}" if of is None else f"{text} of {short_number(of / scale)} {unit}"


def table(headings: Sequence[str], rows: Iterable[Sequence[str | Link | Words]]) -> Table | None:
    """Build a table section of an explanation; None without rows.

    A cell may be one word.
    """
    found = tuple(
        tuple(cell if isinstance(cell, tuple) else (cell,) for cell in row) for row in rows
    )
    return Table(tuple(headings), found) if found else None


def plain_text(words: Words) -> str:
    """Render a sentence with links as plain text: objects by name, times as RFC 3339."""
    return "".join(map(_plain_word, words))


def _plain_word(word: str | Link) -> str:
    if isinstance(word, str):
        return word
    if word.kind == "moment":
        return rfc3339(float(word.key), micro=False)
    if word.kind == "move" and word.key not in word.text:
        return f"{word.text} (migration/{word.key})"
    return word.text
