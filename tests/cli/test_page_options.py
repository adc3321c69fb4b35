"""Where the page is shown: what the options of `kubedsm run` allow."""

import click
import pytest

from kubedsm.cli.options import read_page_options


def viewing(page=False, address=None, token_file=None, hosts=()):
    return read_page_options(page, address, token_file, hosts)


def test_no_page_is_shown_unless_it_is_asked_for():
    assert viewing() is None


def test_it_is_on_loopback_without_a_token():
    shown = viewing(page=True, hosts=("kubedsm.example",))
    assert (shown.address, shown.access.token) == (None, None)
    assert shown.access.host_is_known("kubedsm.example")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_another_port_of_loopback_needs_no_token(host):
    assert viewing(address=(host, 80)).address == (host, 80)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.7", "kubedsm.example"])  # noqa: S104
def test_beyond_loopback_it_needs_a_token(host, tmp_path):
    with pytest.raises(click.UsageError, match="beyond loopback needs --page-token-file"):
        viewing(page=True, address=(host, 80))
    path = tmp_path / "token"
    path.write_text("secret")
    assert viewing(address=(host, 80), token_file=path).access.token.holds("secret")


def test_a_file_without_a_token_is_wrong_usage(tmp_path):
    path = tmp_path / "token"
    with pytest.raises(click.UsageError, match=r"--page-token-file: .*token: No such file"):
        viewing(address=("", 80), token_file=path)
    path.touch()
    with pytest.raises(click.UsageError, match=r"--page-token-file: .*token: empty"):
        viewing(address=("", 80), token_file=path)


def test_what_says_nothing_is_refused(tmp_path):
    with pytest.raises(click.UsageError, match="is about --page-address"):
        viewing(page=True, token_file=tmp_path / "token")
    with pytest.raises(click.UsageError, match="is about --page or --page-address"):
        viewing(hosts=("kubedsm.example",))
    with pytest.raises(click.UsageError, match=r"'kubedsm.example:80' is not a host's name"):
        viewing(page=True, hosts=("kubedsm.example:80",))
