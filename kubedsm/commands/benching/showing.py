"""How every benchmark shows what it found, and how sizes are given."""

from collections.abc import Sequence
from typing import Any, Protocol

import click
from rich.console import Console, Group, RenderableType
from rich.text import Text

from kubedsm.commands.console import print_json


class Measured(Protocol):
    @property
    def sentences(self) -> Sequence[str]: ...

    def as_json(self) -> dict[str, Any]: ...


def report(result: Measured, output: str) -> None:
    say(result.as_json(), Group(*map(Text, result.sentences)), output)


def say(said: Any, shown: RenderableType, output: str) -> None:
    if output == "json":
        print_json(said)
    else:
        Console().print(shown)


def sizes(_: click.Context, __: click.Parameter, value: str) -> tuple[int, ...]:
    counts = value.split(",")
    if not all(count.isascii() and count.isdecimal() and int(count) for count in counts):
        raise click.BadParameter(f"{value!r} is no list of numbers from 1 up, such as 100,1000")
    return tuple(map(int, counts))
