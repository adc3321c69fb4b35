"""`kubedsm watch` as users meet it: a picture, lines in a pipe, one line if there is nothing."""

import asyncio
import json
import re
import sys

import pytest

from kubedsm.process.clock import SystemClock
from kubedsm_lab.cli.credentials import written_kubeconfig
from kubedsm_lab.emulator.api.resources import CONFIGMAPS, NAMESPACES
from kubedsm_lab.emulator.http.server import HttpFront
from support.command_line import kubedsm
from support.terminal import Terminal
from support.watched import watched
from support.worlds import CLOUD, EDGE, emulated

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


async def test_a_cluster_is_followed_without_a_scheduler(tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    async with emulated(EDGE, CLOUD, clock=SystemClock()) as world:
        changed = set()
        world.api.store.subscribe(lambda change: changed.add(change.resource.kind))
        async with HttpFront(world.cluster.routes) as front:
            url = front.url
            with written_kubeconfig(url, None, kubeconfig):
                said, _, code = await first_said("--kubeconfig", kubeconfig)
        assert said.startswith("kubedsm: QoS targets are not shown, for ConfigMap kubedsm/kubedsm")
        assert code == 0
        # Its own controllers see to nodes, and nobody writes anything else.
        assert changed <= {"Node"}


CONFIGURATION = "services: {'*': {qos: 0.5}}"


@pytest.mark.parametrize("where", ["ConfigMap", "--config", "nowhere"])
async def test_a_cluster_that_is_followed_has_its_targets_or_none(tmp_path, where):
    kubeconfig, file, more = tmp_path / "kubeconfig", tmp_path / "config.yaml", ()
    async with emulated(EDGE, CLOUD, clock=SystemClock()) as world:
        world.deploy("web", 2)
        if where == "ConfigMap":
            world.api.create(NAMESPACES, {"metadata": {"name": "kubedsm"}})
            data = {"metadata": {"name": "kubedsm"}, "data": {"config.yaml": CONFIGURATION}}
            world.api.create(CONFIGMAPS, data, namespace="kubedsm")
        elif where == "--config":
            file.write_text(CONFIGURATION)
            more = ("--config", file)
        async with HttpFront(world.cluster.routes) as front:
            with (
                written_kubeconfig(front.url, None, kubeconfig),
                Terminal("watch", "--kubeconfig", kubeconfig, *more, LINES="30") as terminal,
            ):
                await terminal.until("default/web ")
                shown = terminal.screen
                terminal.interrupt()
                assert await terminal.ended() == 0
    assert ("50%" in shown) == (where != "nowhere")
    assert ("1 missing" in shown) == (where != "nowhere")
    assert where != "nowhere" or not re.search(r"[0-9]%|lacks", shown)
    assert "0.00" not in shown
    assert "kept" not in shown


def test_a_configuration_is_for_a_cluster_that_is_followed():
    done = kubedsm("watch", "--config", "kubedsm.yaml")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--config is about --kubeconfig or --context" in done.stderr
