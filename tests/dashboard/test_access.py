"""Who is let in to the page: by which name, with which token."""

import pytest

from kubedsm.dashboard.server.access import HEADERS, Access, TokenFile, TokenFileError


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8080", "LOCALHOST", "127.0.0.1:10270", "10.0.0.7", "[::1]:10270"],
)
def test_addresses_and_localhost_are_known(host):
    assert Access().host_is_known(host)


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "evil.example:10270", "localhost.evil.example", "a@localhost", "1.2.3"],
)
def test_no_name_that_somebody_else_can_make_lead_here_is_known(host):
    assert not Access().host_is_known(host)


def test_a_name_that_was_given_is_known():
    assert Access(names=["kubedsm.example"]).host_is_known("kubedsm.example:443")


def test_a_token_that_changes_holds_at_once(tmp_path):
    path = tmp_path / "token"
    path.write_text("first\n")
    tokens = TokenFile(path)
    assert tokens.holds("first")
    assert not tokens.holds("firs")
    # As a header is read that is no text.
    assert not tokens.holds("\udcff")

    path.write_text("the second")
    assert not tokens.holds("first")
    assert tokens.holds("the second")


def test_nobody_is_let_in_while_there_is_no_token(tmp_path):
    path = tmp_path / "token"
    path.write_text("first")
    tokens = TokenFile(path)

    path.write_text("\n")
    assert not tokens.holds("first")
    assert not tokens.holds("")
    path.unlink()
    assert not tokens.holds("first")


def test_a_file_without_a_token_is_told_in_a_line(tmp_path):
    path = tmp_path / "token"
    with pytest.raises(TokenFileError, match="No such file"):
        TokenFile(path)
    path.write_text(" \n")
    with pytest.raises(TokenFileError, match="empty"):
        TokenFile(path)


def test_nothing_inline_and_nothing_from_elsewhere_may_run():
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "http" not in policy
    assert policy.startswith("default-src 'none'; script-src 'self'; ")
