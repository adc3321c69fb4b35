"""Rich console for terminal output, with escaped unprintable characters."""

from collections.abc import Iterable

from rich import console as rich_console
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

from kubedsm.terminal.echo import escape_unprintable


class Console(rich_console.Console):  # noqa: TID251  the one place
    """Rich's console, with unprintable characters of the rendered text escaped."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(escape_unprintable(segment.text), segment.style)
