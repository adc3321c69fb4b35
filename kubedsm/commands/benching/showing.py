"""How every benchmark shows what it found, and how sizes are given."""

from typing import Any

import click
from rich.console import Console, RenderableType

from kubedsm.commands.console import print_json
from kubedsm.commands.tables import bench_table


def report(rows: dict[str, Any], output: str) -> None:
    say(rows, bench_table(rows), output)


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
