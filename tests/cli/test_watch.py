"""`kubedsm watch` as users meet it: a picture, lines in a pipe, one line if there is nothing."""

import asyncio
import json
import sys

import pytest

from support.command_line import kubedsm
from support.terminal import Terminal
from support.watched import watched

pytestmark = pytest.mark.http


def test_without_a_scheduler_that_is_one_line():
    done = kubedsm("watch", "--server", "http://127.0.0.1:9")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("kubedsm: error: nothing answers at http://127.0.0.1:9: start ")


@pytest.mark.parametrize("content", [None, b"", b"two words"])
def test_a_file_without_a_token_is_one_line(tmp_path, content):
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    done = kubedsm("watch", "--token-file", path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert str(path) in done.stderr
    assert path.exists() == (content is not None)


async def test_a_picture_changes_in_place_until_it_is_interrupted():
    async with watched() as (there, url):
        with Terminal("watch", "--server", url, LINES="30") as terminal:
            await terminal.until("KubeDSM at ")
            there.world.deploy("half", 2)
            await terminal.until("default/half")
            terminal.interrupt()
            assert await terminal.ended() == 0
    assert "Traceback" not in terminal.screen


async def first_said(*arguments):
    """The first line on stderr, and all on stdout until it is ended; and its exit code."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kubedsm", "watch", *map(str, arguments),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(60):
        said = await process.stderr.readline()
    process.terminate()
    out, _ = await process.communicate()
    return said.decode(), out.decode(), process.returncode


async def test_in_a_pipe_it_begins_by_saying_how_things_stand():
    async with watched() as (_, url):
        said, out, code = await first_said("--server", url, "-o", "json")
    assert said.startswith(f"kubedsm: {url}: ")
    assert all(json.loads(line)["text"] for line in out.splitlines())
    assert code == 0
