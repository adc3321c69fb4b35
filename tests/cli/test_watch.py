"""`kubedsm watch` and `kubedsm record` as they are typed."""

import asyncio
import json
import os
import pty
import re
import signal
import termios

import pytest

from kubedsm.cli import live_view
from kubedsm_lab.cli import recording_session
from loadgen.generators import normal
from loadgen.scenario import dumps
from support.command_line import kubedsm
from support.forked import Forked
from support.processes import Process, unreachable, write
from support.watched import watched

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


pytestmark = pytest.mark.http
NOWHERE = "http://127.0.0.1:9"
#: full screen, and back to the lines before; cursor visible again
TAKEN, RETURNED, CURSOR = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"


def test_without_the_extra_one_line_names_it(monkeypatch):
    monkeypatch.setattr(live_view, "is_interactive", lambda: True)
    monkeypatch.setattr(live_view, "find_spec", lambda _: None)
    done = kubedsm("watch", "--server", NOWHERE)
    first, second = done.stderr.splitlines()
    assert first.startswith("kubedsm: tables need the extra kubedsm[watch]")
    assert "no response" in second
    assert done.returncode == 1


@pytest.mark.parametrize("end", ["q", "\x03", "signal"])
async def test_tables_change_in_place_and_leave_the_terminal_clean(end):
    async with watched() as (there, url):
        with Terminal("watch", "--server", url, LINES="30") as terminal:
            before = terminal.settings()
            await terminal.until("KubeDSM at ")
            there.world.deploy("half", 2)
            await terminal.until("default/half")
            assert terminal.settings() != before
            if end == "signal":
                terminal.interrupt()
            else:
                terminal.type(end)
            assert await terminal.ended() == 0
            _, ending = terminal.screen.rsplit(TAKEN, 1)
            assert RETURNED in ending
            assert CURSOR in ending.rsplit(RETURNED, 1)[1]
            assert terminal.settings() == before
    assert "Traceback" not in terminal.screen


async def test_it_ends_with_its_terminal():
    async with watched() as (_, url):
        with Terminal("watch", "--server", url) as terminal:
            await terminal.until("KubeDSM at ")
            terminal.close()
            assert await terminal.ended() == 1


async def test_a_dumb_terminal_gets_lines():
    async with watched() as (there, url):
        with Terminal("watch", "--server", url, TERM="dumb") as terminal:
            await terminal.until(f"kubedsm: {url}: ")
            there.world.deploy("half", 2)
            await terminal.until("placed|bound|scheduled")
            terminal.interrupt()
            assert await terminal.ended() == 0
    assert "\x1b" not in terminal.screen


def first_said(*arguments):
    """The first line on stderr, and all on stdout until it is ended; and its exit code."""
    with Process("watch", *arguments) as watching:
        said = watching.process.stderr.readline()
        code, out, _ = watching.stop(signal.SIGTERM)
    return said, out, code


async def test_in_a_pipe_it_begins_by_saying_how_things_stand():
    async with watched() as (_, url):
        given = ("--server", url, "-o", "json")
        said, out, code = await asyncio.to_thread(first_said, *given)
    assert said.startswith(f"kubedsm: {url}: ")
    assert all(json.loads(line)["text"] for line in out.splitlines())
    assert code == 0


@pytest.fixture
def scenario(tmp_path):
    return write(tmp_path, "load.json", dumps(normal(1.5, 0.4, seed=3, cycles=1)))


def test_a_signal_before_anything_is_known_is_no_recording(scenario, tmp_path, monkeypatch):
    async def greet(*_, **__):
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(60)

    monkeypatch.setattr(recording_session, "greet", greet)
    on = ("--kubeconfig", unreachable(tmp_path), "--scenario", scenario)
    done = kubedsm("record", *on, "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "kubedsm: error: interrupted\n"
    assert list((tmp_path / "out").iterdir()) == []
