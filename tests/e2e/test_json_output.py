"""Commands with `-o json` beside libraries that print on file descriptor 1."""

import json
import os
import select
import subprocess
import sys

import pytest

from support.dumps import crowded_edge
from support.processes import PATIENCE, Server, kubedsm

pytestmark = pytest.mark.http

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


def test_output_is_one_document(noisy, files):
    arguments = ("suggest", "--from", files["edge"], "-o", "json")
    done = kubedsm(*arguments, env=noisy, timeout=PATIENCE)
    assert done.returncode in (0, 1), done.stderr  # 1: a pod waits, and the like
    assert NOISE in done.stderr
    assert json.loads(done.stdout)


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
