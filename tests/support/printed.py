"""What people are shown, as it is printed."""

import io

from rich.console import Console


def printed(renderable, width=200):
    """Its text, without colours, in a terminal of that width."""
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(renderable)
    return console.file.getvalue()
