"""Options: what --help says of them, and what those of the page allow."""

import re

import click
import pytest

from kubedsm.cli.main import commands
from kubedsm.cli.options import read_page_options


def all_commands(command, path):
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(None):
            yield from all_commands(command.get_command(None, name), f"{path} {name}")


COMMANDS = dict(all_commands(commands, "kubedsm"))


def help_of(path):
    context, names = None, path.split()
    for depth, name in enumerate(names, 1):
        command = COMMANDS[" ".join(names[:depth])]
        context = click.Context(command, info_name=name, parent=context, **command.context_settings)
    return command.get_help(context)


def records(path):
    """Each option with what its help says."""
    context = click.Context(commands, **commands.context_settings)
    inner = click.Context(COMMANDS[path], parent=context)
    for option in COMMANDS[path].params:
        if isinstance(option, click.Option):
            yield option, option.get_help_record(inner)[1]


def test_every_option_says_what_it_does_and_run_names_every_default():
    said = [(option, text) for path in COMMANDS for option, text in records(path)]
    assert [option.opts for option, _ in said if not option.help] == []
    run = records("kubedsm run")
    assert [o.opts for o, text in run if not o.is_flag and "[default: " not in text] == []


@pytest.mark.parametrize("path", [p for p, c in COMMANDS.items() if isinstance(c, click.Group)])
def test_no_command_is_summed_up_by_half_a_sentence(path):
    listed = help_of(path).partition("-h, --help")[2]
    rows = re.findall("^  [a-z]+  +[A-Z].*[.?]$", listed, re.MULTILINE)
    assert len(rows) == len(COMMANDS[path].list_commands(None))
    assert "..." not in listed


def viewing(page=False, address=None, token_file=None, hosts=()):
    return read_page_options(page, address, token_file, hosts)


def test_no_page_unless_asked_for_and_on_loopback_without_a_token():
    assert viewing() is None
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


def test_a_file_without_a_token_and_what_says_nothing_is_wrong_usage(tmp_path):
    path = tmp_path / "token"
    with pytest.raises(click.UsageError, match=r"--page-token-file: .*token: No such file"):
        viewing(address=("", 80), token_file=path)
    path.touch()
    with pytest.raises(click.UsageError, match=r"--page-token-file: .*token: empty"):
        viewing(address=("", 80), token_file=path)
    with pytest.raises(click.UsageError, match="is about --page-address"):
        viewing(page=True, token_file=tmp_path / "token")
    with pytest.raises(click.UsageError, match="is about --page or --page-address"):
        viewing(hosts=("kubedsm.example",))
    with pytest.raises(click.UsageError, match=r"'kubedsm.example:80' is not a host's name"):
        viewing(page=True, hosts=("kubedsm.example:80",))
