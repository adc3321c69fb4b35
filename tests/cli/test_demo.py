"""Commands of the lab: demo, chaos, and the files with secrets of an emulated cluster."""

import json
import os
import signal
import stat
import sys

import pytest
from click.testing import CliRunner

from kubedsm.config.documents import DocumentError
from kubedsm_lab.chaos import sweep
from kubedsm_lab.cli import demo_session
from kubedsm_lab.cli.chaos import chaos
from kubedsm_lab.cli.credentials import ensure_token, written_kubeconfig
from support.processes import Process


@pytest.mark.parametrize(
    ("somebody", "platform", "environment", "there"),
    [
        (True, "linux", {"WAYLAND_DISPLAY": "wayland-0"}, True),
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


FAULT = "call:create-pods/binding:1:409"


def ran(*arguments):
    done = CliRunner().invoke(chaos, list(map(str, arguments)), env={"COLUMNS": "200"})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done


def broken_at(monkeypatch, fault):
    """Have this one fault break a promise, by a reference that ends in another way."""
    usual = sweep.reference("burst", 0)

    def judged(injection):
        outcome = sweep.play(injection, usual)
        wrong = ("I7: web has nothing",) if injection.command.endswith(f" {fault}") else ()
        return sweep.Verdict(injection, outcome.struck, wrong)

    monkeypatch.setattr(sweep, "judge", judged)


def test_a_broken_promise_is_shown_with_the_command_that_tells_of_it(monkeypatch):
    found = [i for i in sweep.list_injections(["burst"], 0) if i.command.endswith(f" {FAULT}")]
    monkeypatch.setattr("kubedsm_lab.chaos.sweep.list_injections", lambda *_, **__: found)
    broken_at(monkeypatch, FAULT)
    done = ran("--injections", 1, "--workload", "burst", "--jobs", 1)
    assert done.exit_code == 1
    assert f"kubedsm chaos --workload burst --seed 0 --fault {FAULT} (and 0 alike)" in done.stdout
    assert "1 injections, 1 broke a guarantee; 1 of 1 cells" in done.stdout


def test_one_fault_is_told_from_where_it_strikes():
    done = ran("--workload", "burst", "--fault", FAULT)
    assert done.exit_code == 0
    told = done.stdout.splitlines()
    assert "create-pods/binding #1" in told[0]
    assert f"FAULT {FAULT}" in told[1]
    assert "web: 4 at the edge, 1 in the cloud, 1 waiting" in told


URL = "http://127.0.0.1:8001"


@pytest.fixture(autouse=True)
def generous_umask():
    """So that a file is private because we said so."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_missing_token_file_is_made_with_a_token_that_nobody_guesses(tmp_path, capsys):
    token = ensure_token(tmp_path / "token")
    assert len(token) >= 40
    assert mode(tmp_path / "token") == 0o600
    assert ensure_token(tmp_path / "token") == token
    assert ensure_token(tmp_path / "other") != token
    assert capsys.readouterr().err == ""
    (tmp_path / "token").write_text("  let-me-in\n")
    assert ensure_token(tmp_path / "token") == "let-me-in"


def test_a_token_that_others_can_read_gets_a_line_and_is_left_as_it_is(tmp_path, capsys):
    path = tmp_path / "token"
    path.write_text("let-me-in")
    path.chmod(0o640)
    assert ensure_token(path) == "let-me-in"
    [line] = capsys.readouterr().err.splitlines()
    assert line == (
        f"kubedsm: {path} contains a token, and others may read it (mode 0640); chmod 600 {path}"
    )
    assert mode(path) == 0o640
    path = tmp_path / "config"
    path.write_text("something much longer than what is written over it" * 20)
    path.chmod(0o644)
    with written_kubeconfig(URL, "secret", path):
        json.loads(path.read_text())
    assert "mode 0644" in capsys.readouterr().err
    with written_kubeconfig(URL, None, path):
        assert "secret" not in path.read_text()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"two words", b"two\nlines", b"\xff", b"caf\xc3\xa9"]
)
def test_what_is_no_token_is_refused_in_one_line(content, tmp_path):
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(DocumentError, match=f"^{path}: not a token: .+$"):
        ensure_token(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("asked_for", [True, False])
def test_only_its_owner_can_read_a_kubeconfig(asked_for, tmp_path):
    with written_kubeconfig(URL, "secret", tmp_path / "config" if asked_for else None) as path:
        assert mode(path) == 0o600
        assert json.loads(path.read_text())["users"][0]["user"] == {"token": "secret"}
