"""The form of an answer: a title, sentences, tables; what can be asked about further is a link."""

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

#: names in a list, before it is only said how many more there are
_NAMED = 8


class Link(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: Literal["pod", "node", "workload", "move", "decision", "moment"]
    #: in the table of that kind; of a decision its number, of a moment its seconds since the epoch
    key: str
    #: empty of a moment: whoever reads it has a time zone
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
    #: to be copied as it is
    code: str = ""
    #: it is long, and shown to whoever wants it
    folded: bool = False


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    title: str
    #: the answer itself is the first of them
    lines: tuple[Words, ...]
    sections: tuple[Section, ...] = ()


def pod_link(name: object) -> Link:
    return Link("pod", str(name), str(name))


def node_link(name: str) -> Link:
    return Link("node", name, name)


def workload_link(name: object) -> Link:
    return Link("workload", str(name), str(name))


def move_link(key: str, text: str) -> Link:
    return Link("move", key, text)


def decision_link(number: int) -> Link:
    return Link("decision", str(number), f"decision {number}")


def moment(at: float) -> Link:
    return Link("moment", f"{at:.3f}")


def listed(links: Sequence[Link], most: int = _NAMED) -> Words:
    """The first of them, and how many more there are."""
    words: list[str | Link] = []
    for link in links[:most]:
        words += [", ", link] if words else [link]
    if len(links) > most:
        words.append(f" and {len(links) - most} more")
    return tuple(words)


def percent(part: float) -> str:
    return f"{round(100 * part, 1):g} %"


def amount(resource: str, number: int, of: int | None = None) -> str:
    """So much of it, as short as it is read at a glance; of so much in all."""
    scale, unit = 1.0, resource
    if resource == "cpu":
        scale = 1000.0
    elif resource in ("memory", "ephemeral-storage"):
        scale, unit = 2.0**30, f"GiB {resource}"
    told = f"{number / scale:.3g}"
    return f"{told} {unit}" if of is None else f"{told} of {of / scale:.3g} {unit}"


def table(headings: Sequence[str], rows: Iterable[Sequence[str | Link | Words]]) -> Table | None:
    """None without rows. A cell may be one word."""
    found = tuple(
        tuple(cell if isinstance(cell, tuple) else (cell,) for cell in row) for row in rows
    )
    return Table(tuple(headings), found) if found else None
