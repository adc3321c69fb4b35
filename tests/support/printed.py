"""Rendered output of rich values, as users see it."""

import io

from kubedsm.terminal.console import Console


def printed(renderable, width=200):
    """Return a renderable's text, without colours, for a terminal width."""
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(renderable)
    return console.file.getvalue()


def spans(renderable):
    """Yield each coloured text of a renderable with its colour."""
    console = Console(width=100, file=io.StringIO(), force_terminal=True)
    for segment in console.render(renderable):
        if segment.style is not None and segment.style.color is not None:
            yield segment.text.strip(), segment.style.color.name
