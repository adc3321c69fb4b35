"""Without the solver's library everything works and says so; `-o json` beside noisy libraries."""

import json
import os
import select
import signal
import subprocess
import sys

import pytest

from kubedsm.solvers import available
from support import command_line
from support.dumps import crowded_batch, crowded_edge
from support.processes import PATIENCE, Scheduler, Server, kubedsm, start_interpreter, write

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


NOISE = "Running LIBRARY 1.16.0"
#: prints at its import, and becomes the library itself; solvers print in their constructor, too
STUB = f"""
import importlib, os, sys
if __name__ != "orjson" or "kubedsm.cli.main" in sys.modules:  # orjson: in its own process
    os.write(1, b"{NOISE}\\n")
place = sys.path.index({{folder!r}})
del sys.path[place], sys.modules[__name__]
library = importlib.import_module(__name__)
sys.path.insert(place, {{folder!r}})
if __name__ == "highspy":
    class Highs(library.Highs):
        def __init__(self, *args, **kwargs):
            os.write(1, b"{NOISE}\\n")
            super().__init__(*args, **kwargs)
    library.Highs = Highs
"""
#: commands that serve or take long
SERVING = {
    "run": "--leader-elect=false --diagnostics-port 0 --kubeconfig {kubeconfig}",
    "bench solve": "",
}


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    """Return an environment in which libraries print."""
    folder = tmp_path_factory.mktemp("libraries")
    for name in ("highspy", "orjson", "ortools"):
        (folder / name).mkdir()
        stub = STUB.format(folder=str(folder))
        (folder / name / "__init__.py").write_text(stub)
    return {**os.environ, "PYTHONPATH": str(folder)}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    (folder / "edge").write_bytes(crowded_edge())
    with Server() as server:
        yield {"kubeconfig": server.kubeconfig, "edge": folder / "edge"}


@pytest.mark.http
def test_output_is_one_document(noisy, files):
    arguments = ("suggest", "--from", files["edge"], "-o", "json")
    done = kubedsm(*arguments, env=noisy, timeout=PATIENCE)
    assert done.returncode in (0, 1), done.stderr  # 1: a pod waits, and the like
    assert NOISE in done.stderr
    assert json.loads(done.stdout)


@pytest.mark.http
@pytest.mark.parametrize("command", SERVING)
def test_libraries_print_to_stderr(command, noisy, files):
    """Started until a library has printed; its own output is a line of JSON then, if any."""
    arguments = SERVING[command].format_map(files).split()
    typed = [sys.executable, "-m", "kubedsm", *command.split(), *arguments, "-o", "json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(typed, env=noisy, **pipes) as process:
        select.select([process.stdout, process.stderr], [], [], PATIENCE)
        process.kill()
        out, err = process.communicate()
    assert NOISE in err.decode()
    for line in out.splitlines():
        assert json.loads(line)
