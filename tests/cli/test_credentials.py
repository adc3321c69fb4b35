"""Files with secrets in them."""

import json
import os
import stat

import pytest

from kubedsm.config.documents import DocumentError
from kubedsm_lab.cli.credentials import ensure_token, written_kubeconfig

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
