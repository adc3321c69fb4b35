"""The command line: which commands there are."""

import sys
from typing import NoReturn

import click
from click.shell_completion import ShellComplete

from kubedsm import __version__
from loadgen.echo import echo
from loadgen.problems import Problem
from loadgen.running import Commands, run

PLUGIN = "kubectl kubedsm"
#: the module of each; only the one asked for is imported
MODULES = {
    name: f"kubedsm.command_line.{name}"
    for name in (
        "approve",
        "bench",
        "chaos",
        "compare",
        "config",
        "demo",
        "emulate",
        "explain",
        "pack",
        "place",
        "rbac",
        "record",
        "replay",
        "run",
        "suggest",
        "watch",
    )
}


@click.group(
    cls=Commands,
    modules=MODULES,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "show_default": True,
    },
)
@click.version_option(__version__, prog_name="kubedsm")
def commands() -> None:
    """Schedule pods on the nodes of an edge-cloud cluster, as many at the edge as asked for."""


def main() -> NoReturn:
    """Run the command line. Every error is one line on stderr: exit code 2 usage, 1 the rest."""
    run(commands, "kubedsm", (Problem,))


def plugin() -> NoReturn:
    """The same as a plugin of kubectl, which looks for `kubectl-kubedsm` on the PATH."""
    run(commands, PLUGIN, (Problem,))


def complete_plugin() -> NoReturn:
    """What may come next, for kubectl, which asks `kubectl_complete-kubedsm`.

    A line for each, with its meaning after a tab; at last a number, as Cobra has them: 4 for
    nothing else, 0 for files too.
    """
    *given, begun = sys.argv[1:] or [""]
    found = ShellComplete(commands, {}, PLUGIN, "").get_completions(given, begun)
    for item in found:
        if item.type == "plain":
            echo(f"{item.value}\t{item.help}" if item.help else item.value)
    echo(":4" if all(item.type == "plain" for item in found) else ":0")
    sys.exit(0)
