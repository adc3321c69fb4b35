"""Without the solver's library everything works, and says what could not be proven."""

import json
import signal
import sys

import pytest

from kubedsm.solvers import available
from support import command_line
from support.dumps import crowded_batch, crowded_edge
from support.processes import Scheduler, Server, start_interpreter, write

NOT_INSTALLED = (
    "solver: highspy is not installed: above the exact-search limit, decisions are heuristic"
    " and not proven optimal"
)


@pytest.fixture
def not_installed(tmp_path, monkeypatch):
    """Here and in all processes that are started importing it fails, as if it were not there."""
    write(tmp_path, "sitecustomize.py", "import sys\nsys.modules['highspy'] = None\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "highspy", None)
    available.is_installed.cache_clear()
    yield
    available.is_installed.cache_clear()


@pytest.fixture
def batch(tmp_path):
    return write(tmp_path, "batch.json", crowded_batch().decode())


@pytest.fixture
def running(tmp_path):
    return write(tmp_path, "running.json", crowded_edge().decode())


@pytest.mark.usefixtures("not_installed")
def test_commands_decide_and_say_that_it_is_not_proven(batch, running):
    placed = command_line.kubedsm("place", "--from", batch, "-o", "json")
    assert (placed.returncode, "Traceback" in placed.stderr) == (0, False)
    said = json.loads(placed.stdout)
    assert len(said["bindings"]) + len(said["unplaced"]) == 80
    assert said["proven"] is False
    suggested = command_line.kubedsm("suggest", "--from", running, "-o", "json")
    assert (suggested.returncode, "Traceback" in suggested.stderr) == (0, False)
    assert json.loads(suggested.stdout)["proven"] is False
    playing = ("replay", "1.5-.4", "--policies", "kubedsm", "-o", "json", "--jobs", "1")
    played = command_line.kubedsm(*playing)
    assert (played.returncode, played.stderr) == (0, "")
    refused = command_line.kubedsm("bench", "solve", "-n", "1")
    assert refused.returncode == 1
    assert refused.stderr == (
        "kubedsm: error: highspy is not installed: the best cannot be found\n"
    )


@pytest.mark.usefixtures("not_installed")
def test_it_is_said_once_what_that_means(tmp_path):
    shown = command_line.kubedsm("config", "show")
    assert (shown.returncode, shown.stderr) == (0, f"kubedsm: {NOT_INSTALLED}\n")
    off = write(tmp_path, "off.yaml", "solver: {kind: 'off'}\n")
    shown = command_line.kubedsm("config", "show", off)
    assert (shown.returncode, shown.stderr) == (0, "")


class Fresh(Scheduler):
    start = staticmethod(start_interpreter)


@pytest.mark.http
@pytest.mark.usefixtures("not_installed")
def test_the_scheduler_says_so_when_it_starts_and_places_all_the_same():
    with Server() as server, Fresh(server, "--leader-elect=false") as scheduler:
        server.deploy("web", 20)
        server.until(lambda: server.bound() == 20)
        code, out, err = scheduler.stop(signal.SIGTERM)
    assert (code, err) == (0, "")
    events = [json.loads(line)["event"] for line in out.splitlines()]
    assert events.count(NOT_INSTALLED) == 1
