"""`kubedsm demo`: what is wrong is told before the run, and a run that is ended ends in order."""

import os
import signal
import sys

import pytest

from kubedsm.terminal.running import PIPE_CLOSED
from kubedsm_lab.cli import demo_session
from support.command_line import kubedsm
from support.processes import Process

BAD = {
    "no folder": ("none/demo.svg", "no such folder"),
    "in a file": ("file/demo.svg", "no folder"),
    "a folder": ("folder.svg", "is a folder"),
    "not an svg": ("demo.png", "does not end with .svg"),
    "not ours to write": ("locked.svg", "cannot be written"),
}


@pytest.mark.parametrize(("name", "said"), BAD.values(), ids=BAD)
def test_a_picture_that_could_not_be_saved_is_refused_before_the_run(
    tmp_path, monkeypatch, name, said
):
    (tmp_path / "folder.svg").mkdir()
    (tmp_path / "file").touch()
    locked = tmp_path / "locked.svg"
    locked.touch()
    # Whoever runs the tests may be allowed everything.
    monkeypatch.setattr(os, "access", lambda path, _: path != locked)
    done = kubedsm("demo", "--picture", tmp_path / name)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("kubedsm: error: Invalid value for '--picture': ")
    assert said in line


def test_how_to_look_at_it_can_be_copied_at_any_width_and_no_page_is_no_page():
    done = kubedsm("demo", "--no-open")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--no-open is about the page of --page" in done.stderr
    command = demo_session.show_command("/var/kubedsm-12345678/kubeconfig", 80)
    narrow = demo_session.show_command("/var/kubedsm-12345678/kubeconfig", 50)
    assert len(command) <= 80
    assert max(map(len, narrow.splitlines())) <= 50
    assert narrow.replace("\\\n", "").split() == command.split()


@pytest.mark.parametrize(
    ("somebody", "platform", "environment", "there"),
    [
        (True, "linux", {"DISPLAY": ":0"}, True),
        (True, "linux", {"WAYLAND_DISPLAY": "wayland-0"}, True),
        (True, "linux", {"BROWSER": "w3m"}, True),
        (True, "linux", {}, False),
        (True, "linux", {"DISPLAY": ""}, False),
        (True, "darwin", {}, True),
        (False, "darwin", {"DISPLAY": ":0"}, False),
    ],
)
def test_a_page_is_opened_where_somebody_sees_it(
    monkeypatch, somebody, platform, environment, there
):
    monkeypatch.setattr(demo_session, "is_at_terminal", lambda: somebody)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(os, "environ", environment)
    assert demo_session.can_open_browser() is there


@pytest.mark.http
def test_a_demo_that_is_ended_says_how_it_went_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with Process("demo", "--cycles", "60") as demo:
        while " pods bound; " not in demo.line():
            assert demo.process.poll() is None
        assert list(tmp_path.iterdir())
        code, out, err = demo.stop(signal.SIGINT)
    assert (code, err) == (130, "")
    assert "Interrupted after" in out
    assert "edge-1" in out
    assert "Try next:" in out
    assert not list(tmp_path.iterdir())


def test_a_demo_that_nobody_reads_on_ends_as_all_else_does(monkeypatch):
    monkeypatch.setattr(os, "dup2", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        demo_session.make_console(stderr=False).on_broken_pipe()
    assert ended.value.code == PIPE_CLOSED
