"""What --help says: every option, every default, and no sentence cut short."""

import re

import click
import pytest

from kubedsm.cli.main import commands


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


@pytest.mark.parametrize("path", COMMANDS)
def test_every_option_says_what_it_does(path):
    assert [option.opts for option, _ in records(path) if not option.help] == []


def test_run_names_every_default():
    silent = [
        o.opts for o, text in records("kubedsm run") if not o.is_flag and "[default: " not in text
    ]
    assert silent == []


@pytest.mark.parametrize("path", [p for p, c in COMMANDS.items() if isinstance(c, click.Group)])
def test_no_command_is_summed_up_by_half_a_sentence(path):
    listed = help_of(path).partition("-h, --help")[2]
    rows = re.findall("^  [a-z]+  +[A-Z].*[.?]$", listed, re.MULTILINE)
    assert len(rows) == len(COMMANDS[path].list_commands(None))
    assert "..." not in listed
