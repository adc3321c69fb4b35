"""How every benchmark shows what it found."""

from typing import Any

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
