"""docs/architecture.md is true of the tree: its picture, its table, and every name in it.

So are the names and paths in the other documents.
"""

import asyncio
import functools
import pkgutil
import re
import runpy
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubedsm.cli.run import run
from kubedsm.kube.client.port import CredentialsError, ObjectName
from kubedsm_lab.cli.replay import replay
from kubedsm_lab.emulator.api.resources import CONFIGMAPS, NAMESPACES
from kubedsm_lab.replay.virtual_time import run_in_virtual_time
from loadgen.generators import normal
from loadgen.scenario import dumps
from support.packings import half_full, in_pieces, large, placed
from support.replicas import replicas
from support.worlds import CLOUD, emulated

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "architecture.md"
TEXT = DOCUMENT.read_text()
DOCUMENTS = "\n".join(
    path.read_text() for path in [ROOT / "README.md", *DOCUMENT.parent.rglob("*.md")]
)
NAMES = re.compile(r"`((?:kubedsm|kubedsm_lab|plans|loadgen)(?:\.\w+)+)`")
PATHS = re.compile(r"`((?:kubedsm|lab|plans|loadgen|docs|tests|manifests)/[\w./-]+)`")
WALKS = TEXT.partition("\n## Walks\n")[2].partition("\n## ")[0]


def test_the_picture_and_the_table_show_the_rooms_as_they_are():
    rooms = runpy.run_path(str(ROOT / "docs" / "rooms.py"))
    assert rooms["written"](TEXT) == TEXT, "run `python docs/rooms.py`"


@pytest.mark.parametrize("name", sorted(set(NAMES.findall(DOCUMENTS))))
def test_a_name_is_found_where_the_documents_say(name):
    pkgutil.resolve_name(name)


@pytest.mark.parametrize("path", sorted(set(PATHS.findall(DOCUMENTS))))
def test_a_path_is_there(path):
    assert (ROOT / path).exists()


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([\w./-]+)\)", TEXT))))
def test_a_link_leads_somewhere(target):
    assert (DOCUMENT.parent / target).exists()


def test_every_question_and_every_step_of_a_walk_names_what_to_read():
    questions = TEXT.partition("\n## Where is it?\n")[2].partition("\n## ")[0]
    rows = [row for row in questions.splitlines() if row.startswith("| Where")]
    steps = re.split(r"\n\d+\. ", WALKS)[1:]
    assert len(rows) >= 5
    assert len(steps) >= 40
    assert [place for place in (*rows, *steps) if not NAMES.search(place)] == []


def test_the_readme_links_to_the_page():
    assert "(docs/architecture.md)" in (ROOT / "README.md").read_text()


def code_of(named):
    """What runs when it is called, read or made."""
    if isinstance(named, type):
        named = named.__init__
    elif isinstance(named, property):
        named = named.fget
    elif isinstance(named, functools.cached_property):
        named = named.func
    return named.__code__


async def one_leads_and_is_stopped():
    async with replicas(busy=False) as several:
        leader = several.start("leader")
        await several.until_led_by(leader, 5)
        await asyncio.sleep(5)
        leader.stopping.set()
        await several.world.until(lambda: leader.over, 5)


async def room_is_made():
    """A pod that no node takes gets the room of one that is moved."""
    async with in_pieces() as world, world.scheduler():
        await half_full(world)
        large(world)
        await world.until(lambda: placed(world), 30)


async def edited(file):
    """A configuration that changes in a ConfigMap, for better and for worse, and one in a file."""
    name = ObjectName("kubedsm", "kubedsm")
    async with emulated(CLOUD, source=name) as world:
        world.api.create(NAMESPACES, {"metadata": {"name": name.namespace}})
        async with world.scheduler():
            for text in ("batch: {size: 1}", "batch: {size: 0}"):
                made = {"metadata": {"name": name.name}, "data": {"config.yaml": text}}
                world.api.create(CONFIGMAPS, made, namespace=name.namespace)
                await asyncio.sleep(1)
                world.api.delete(CONFIGMAPS, name.namespace, name.name)
        world.source = file
        async with world.scheduler():
            await asyncio.sleep(5)


def test_the_walks_are_walked(tmp_path):
    """A short replay with moves, `run`, room made, an edit, and a leader's life come by all."""
    scenario, configuration = tmp_path / "short.json", tmp_path / "config.yaml"
    scenario.write_text(dumps(normal(1.5, 0.4, seed=1, cycles=3, cycle_seconds=40)))
    # In so short a time nothing is worth a move that costs something.
    configuration.write_text("{batch: {idle: 5ms}, migration: {price: 0s}}")
    walked = set()

    def note(frame, event, _):
        if event == "call":
            walked.add(frame.f_code)

    arguments = [str(scenario), "--policies", "kubedsm", "--jobs", "1", "--config"]
    nowhere = ["--kubeconfig", str(tmp_path / "none"), "--config"]
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        replayed = CliRunner().invoke(replay, [*arguments, str(configuration)])
        begun = CliRunner().invoke(run, [*nowhere, str(configuration)])
        run_in_virtual_time(one_leads_and_is_stopped())
        run_in_virtual_time(room_is_made())
        run_in_virtual_time(edited(configuration))
    finally:
        sys.setprofile(before)
    assert replayed.exit_code == 0, replayed.output
    assert isinstance(begun.exception, CredentialsError)
    names = NAMES.findall(WALKS)
    missed = [name for name in names if code_of(pkgutil.resolve_name(name)) not in walked]
    assert missed == []
