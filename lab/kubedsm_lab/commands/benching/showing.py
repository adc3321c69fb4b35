"""How every benchmark shows what it found."""

from collections.abc import Sequence
from typing import Any, Protocol

from rich.console import Group, RenderableType
from rich.text import Text

from kubedsm.cli.console import print_json
from kubedsm.terminal.console import Console


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
