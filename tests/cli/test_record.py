"""`kubedsm record` as it is typed."""

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
