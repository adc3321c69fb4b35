"""Every command, by what its options say of it: wrong flags, clusters and files are one line."""

import click
import pytest

from kubedsm.cli.main import commands
from loadgen import scenario
from loadgen.generators import normal
from support import command_line, dumps
from support.processes import unreachable, write


def leaves(group=commands, path=()):
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield (*path, name), command


EVERY = dict(leaves())
#: arguments with which a command comes to what it is asked about, several if in several ways
NEEDED = {
    ("approve",): ["3f2a91c0"],
    ("chaos",): ["--yes"],
    ("config", "show"): ["--configmap a/b", "--running"],
    ("explain",): ["x", "--all -l app=cart --config file"],
    ("opt-in",): ["shop"],
    ("opt-out",): ["shop"],
    ("pack",): ["", "--config file"],
    ("place",): ["--from d"],
    ("record",): ["--scenario scenario"],
    ("replay",): ["scenario"],
    ("suggest",): ["", "--config file"],
}
FILES = {
    "file": "",
    "d": dumps.dump_of(dumps.node("e1", "edge"), dumps.pod("cart")).decode(),
    "scenario": scenario.dumps(normal(1.5, 0.4, seed=3, cycles=1, cycle_seconds=20)),
}


def having(*options):
    """Return ways to run the commands that have these options."""
    return [
        (path, arguments.split())
        for path, command in EVERY.items()
        if {*options} <= {name for parameter in command.params for name in parameter.opts}
        for arguments in NEEDED.get(path, [""])
    ]


def refusal(arguments, tmp_path, monkeypatch):
    """Return the exit code and the only line of a command in a folder with files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "none")
    for name, text in FILES.items():
        write(tmp_path, name, text)
    (tmp_path / "folder").mkdir()
    unreachable(tmp_path).rename(tmp_path / "k")
    done = command_line.kubedsm(*arguments)
    assert done.stdout == "" or arguments[0] == "version"  # which begins with its own
    [line] = done.stderr.splitlines()
    assert line.startswith(("kubedsm: error: ", "kubedsm: cluster not read: "))
    return done.returncode, line


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_a_flag_that_does_not_exist(path, tmp_path, monkeypatch):
    code, line = refusal([*path, "--no-such-flag"], tmp_path, monkeypatch)
    assert (code, "No such option '--no-such-flag'" in line) == (2, True), line


OF_CLUSTERS = having("--kubeconfig", "--context")


@pytest.mark.parametrize(("path", "arguments"), OF_CLUSTERS, ids=str)
def test_a_kubeconfig_that_cannot_be_read(path, arguments, tmp_path, monkeypatch):
    wrong = [*path, *arguments, "--kubeconfig", "folder"]
    code, line = refusal(wrong, tmp_path, monkeypatch)
    assert code in (1, 2)
    assert "folder" in line
    assert "directory" in line


@pytest.mark.parametrize(("path", "arguments"), OF_CLUSTERS, ids=str)
def test_a_context_that_the_kubeconfig_lacks(path, arguments, tmp_path, monkeypatch):
    """No command takes the current context instead, which may be another cluster."""
    wrong = [*path, *arguments, "--kubeconfig", "k", "--context", "prod"]
    code, line = refusal(wrong, tmp_path, monkeypatch)
    assert (code, "k: no context 'prod', only kubedsm-emulated" in line) == (1, True), line


#: a dump takes the place of a cluster
DUMPED = {path: NEEDED[path][0].split() for path in (("explain",), ("place",))}
READ = [
    *((path, [*arguments, "--config"]) for path, arguments in having("--config")),
    *((path, [*DUMPED.get(path, ()), "--from"]) for path in dict(having("--from"))),
]


@pytest.mark.parametrize(("path", "arguments"), READ, ids=str)
def test_a_file_that_cannot_be_read(path, arguments, tmp_path, monkeypatch):
    code, line = refusal([*path, *arguments, "folder"], tmp_path, monkeypatch)
    assert code in (1, 2)
    assert "folder" in line
    assert "directory" in line
