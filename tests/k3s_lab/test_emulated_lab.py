"""`lab emulated` when it goes wrong; that it goes right is shown by running it (.ci/run)."""

import os
import signal
import sys
from pathlib import Path

import pytest

from emulated_lab import check
from kubedsm.config.settings import load
from support.lab import LAB, lab
from support.processes import PATIENCE, wait_until

CONFIG = LAB / "emulated_lab" / "config.yaml"
NODES = "n2 edge 1250 1250\nn5 cloud 5500 4250\n"


@pytest.fixture
def there(tmp_path):
    made = lab(tmp_path, NODES)
    (tmp_path / "tmp").mkdir()
    stand_ins, _, rest = made.env["PATH"].partition(":")
    made.env["PATH"] = f"{stand_ins}:{Path(sys.executable).parent}:{rest}"  # it has matplotlib
    made.env["TMPDIR"] = str(tmp_path / "tmp")
    return made


def left(there):
    """What it has not taken away, its logs aside."""
    return [*(there.path / "tmp").iterdir(), *there.journal()]


@pytest.mark.http
def test_a_program_that_ends_early_ends_it(there):
    there.stand_in("prometheus-node-exporter", "exec sleep 60")
    there.stand_in("prometheus", "echo no such flag >&2; exit 1")
    done = there("emulated")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "lab: error: not Prometheus ready: a process ended before"
    assert "no such flag" in lines
    assert left(there) == []


@pytest.mark.http
def test_one_that_is_stopped_leaves_no_process_and_no_file(there):
    for program in ("prometheus", "prometheus-node-exporter"):
        there.stand_in(program, "echo $$ >>$WORLD/pids; exec sleep 60")
    running = there.begin("emulated")
    noted = there.path / "pids"
    wait_until(lambda: noted.exists() and len(noted.read_text().splitlines()) == 2)
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=PATIENCE)
    assert running.returncode == 130
    assert left(there) == []
    for pid in map(int, noted.read_text().split()):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_scenario_or_a_size_that_is_not_there_is_one_line(there):
    for program in ("prometheus", "prometheus-node-exporter"):
        there.stand_in(program, "exec sleep 60")
    assert there("emulated", "none.json").stderr == (
        "lab: error: none.json: no such scenario; loadgen generate makes one\n"
    )


def test_every_query_must_have_an_answer(monkeypatch):
    configuration = load(CONFIG.read_text().replace("$PROMETHEUS", "http://prometheus"), "config")
    empty = ""

    def fetched(url, **parameters):
        return {"data": {"result": [] if empty in parameters["query"] else [1]}}

    monkeypatch.setattr(check, "fetch", fetched)
    for empty in ("node_disk", "container_cpu", "kubedsm_lab", "caught_errors", "load_age"):
        assert not all(so for so, _ in check.check_queries("http://prometheus", configuration)), (
            empty
        )
    empty = "none of them"
    said = dict(reversed(each) for each in check.check_queries("http://prometheus", configuration))
    assert all(said.values())
    assert len(said) == 4 + 4 + 2 + len(check.CONDITIONS)
