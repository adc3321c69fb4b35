"""Whether somebody sits at this terminal, has a browser beside it, and has seen enough."""

import asyncio
import os
import sys
import termios

#: how a desktop, or who has set up a browser for this terminal, makes itself known
_BROWSERS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
_DESKTOPS = ("darwin", "win32")


def at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def can_open() -> bool:
    """Whether there is a browser for somebody here; one within the terminal is none."""
    return at_terminal() and (sys.platform in _DESKTOPS or any(map(os.environ.get, _BROWSERS)))


async def enter_pressed() -> None:
    """Wait for it, or for the end of the input; what was typed before does not count."""
    pressed, loop, terminal = asyncio.Event(), asyncio.get_running_loop(), sys.stdin.fileno()

    def typed() -> None:
        os.read(terminal, 1024)
        pressed.set()

    termios.tcflush(terminal, termios.TCIFLUSH)
    loop.add_reader(terminal, typed)
    try:
        await pressed.wait()
    finally:
        loop.remove_reader(terminal)
