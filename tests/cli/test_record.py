"""`kubedsm record` as it is typed: one line for every mistake, and results side by side."""

import asyncio
import os
import signal

import pytest

from kubedsm_lab.cli import recording_session
from loadgen.generators import normal
from loadgen.scenario import dumps
from support.command_line import kubedsm
from support.processes import unreachable, write

pytestmark = pytest.mark.http


@pytest.fixture
def scenario(tmp_path):
    return write(tmp_path, "load.json", dumps(normal(1.5, 0.4, seed=3, cycles=1)))


EITHER = "give --scenario, or --compare and folders: one of the two"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, EITHER),
        (("--compare",), 2, EITHER),
        (("results",), 2, EITHER),
        (("--compare", "--scenario", "load.json", "results"), 2, EITHER),
        (("--scenario", "load.json", "--namespace", "A"), 2, "--namespace: 'A' is not such a name"),
        (("--scenario", "load.json", "--seconds", "0"), 2, "--seconds"),
        (("--scenario", "none.json"), 1, "none.json: No such file or directory"),
        (("--scenario", "bad.json"), 1, "bad.json: Object missing required field `apis`"),
        (("--scenario", "load.json", "--config", "bad.json"), 1, "bad.json: "),
        (("--scenario", "load.json", "--requests", "bad.json"), 1, "bad.json: is of load that has"),
        (("--scenario", "load.json", "--out", "bad.json"), 2, "bad.json"),
        (("--compare", "none"), 1, "none/results.json: No such file or directory"),
        (("--scenario", "load.json", "--kubeconfig", "none"), 1, "none"),
        (("--scenario", "load.json", "--kubeconfig", "away"), 1, "onnect"),
    ],
)
def test_every_mistake_is_one_line(arguments, code, message, scenario, tmp_path, monkeypatch):
    monkeypatch.chdir(scenario.parent)
    write(tmp_path, "bad.json", '{"api": []}')
    unreachable(tmp_path).rename(scenario.parent / "away")
    done = kubedsm("record", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert done.stderr.startswith("kubedsm: error: ")
    assert done.stderr.count("\n") == 1


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
