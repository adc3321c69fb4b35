"""Who is let in to the page: by which name, with which token."""

import pytest

from kubedsm.dashboard.server.access import HEADERS, Access, TokenFile, TokenFileError


def test_addresses_localhost_and_given_names_are_known_and_no_name_of_somebody_else():
    access = Access(names=["kubedsm.example"])
    for host in (
        *("localhost", "localhost:8080", "LOCALHOST", "127.0.0.1:10270", "10.0.0.7"),
        *("[::1]:10270", "kubedsm.example:443"),
    ):
        assert access.host_is_known(host), host
    for host in (
        *("", "evil.example", "evil.example:10270", "localhost.evil.example", "a@localhost"),
        "1.2.3",
    ):
        assert not access.host_is_known(host), host


def test_a_token_that_changes_holds_at_once_and_without_one_nobody_is_let_in(tmp_path):
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
