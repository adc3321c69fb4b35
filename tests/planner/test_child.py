"""The worker process by itself, when its scheduler is killed: it ends, and has nothing to say."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

import support
from kubedsm.config.fields import write_section
from kubedsm.config.settings import Configuration
from kubedsm.planner.protocol import (
    Configured,
    NumberedRequest,
    dump_message,
    pack_frame,
    read_frame,
)
from support.questions import Process

WORD = pack_frame(b"word")
CONFIGURED = pack_frame(dump_message([Configured(write_section(Configuration()))]))
QUESTION = pack_frame(
    dump_message([NumberedRequest(1, Process(), frozenset(), 0, announced=False)])
)


@pytest.fixture
def child():
    path = str(Path(support.__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-m", "kubedsm.planner.child_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("length", range(len(WORD)))
def test_half_a_word_is_none(length):
    assert read_frame(io.BytesIO(WORD[:length])) == b""


@pytest.mark.http
def test_killed_before_it_has_its_answer(child):
    child.stdout.close()
    child.stdin.write(CONFIGURED + QUESTION)
    child.stdin.flush()
    assert child.wait(timeout=60) == 0
    assert child.stderr.read() == b""
