"""What people are shown, as it is printed."""

import io

from kubedsm.terminal.console import Console


def printed(renderable, width=200):
    """Its text, without colours, in a terminal of that width."""
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(renderable)
    return console.file.getvalue()


def spans(renderable):
    """What is printed in which colour."""
    console = Console(width=100, file=io.StringIO(), force_terminal=True)
    for segment in console.render(renderable):
        if segment.style is not None and segment.style.color is not None:
            yield segment.text.strip(), segment.style.color.name
