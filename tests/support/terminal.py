"""Command in a pseudo-terminal, with simulated keyboard input."""

import asyncio
import os
import pty
import re
import signal
import termios

from support.forked import Forked

PATIENCE = 60.0


class Terminal:
    """`kubedsm` in a pseudo-terminal; `screen` is the output so far."""

    def __init__(self, *arguments, **environment):
        self._arguments = arguments
        self._environment = {"TERM": "xterm", "COLUMNS": "100", **environment}
        self._more = asyncio.Event()
        self.screen = ""

    def __enter__(self):
        self._side, other = pty.openpty()
        self._process = Forked(self._arguments, terminal=other, **self._environment)
        os.close(other)
        asyncio.get_running_loop().add_reader(self._side, self._read)
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self.close()

    def close(self):
        """Close the window: the command's terminal is gone."""
        if self._side is not None:
            asyncio.get_running_loop().remove_reader(self._side)
            os.close(self._side)
            self._side = None

    def _read(self):
        try:
            self.screen += os.read(self._side, 65_536).decode(errors="replace")
        except OSError:  # nobody writes there any more
            asyncio.get_running_loop().remove_reader(self._side)
        self._more.set()

    async def until(self, pattern):
        """Wait until the output matches the pattern; return the match."""
        async with asyncio.timeout(PATIENCE):
            while (found := re.search(pattern, self.screen)) is None:
                self._more.clear()
                await self._more.wait()
        return found

    def type(self, text):
        os.write(self._side, text.encode())

    def settings(self):
        """Return the terminal's settings, such as echo."""
        return termios.tcgetattr(self._side)

    def interrupt(self):
        self._process.send_signal(signal.SIGINT)

    async def ended(self):
        """Wait for the end; return the exit code."""
        return await asyncio.to_thread(self._process.wait, PATIENCE)
