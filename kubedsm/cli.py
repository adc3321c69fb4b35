"""Command line of KubeDSM: the commands, and where each of them is."""

import sys
from importlib.metadata import entry_points
from typing import NoReturn

import click
from click.shell_completion import ShellComplete

from kubedsm import __version__
from kubedsm.terminal.echo import echo
from kubedsm.terminal.problems import Problem
from kubedsm.terminal.running import Commands, run

PLUGIN = "kubectl kubedsm"
#: Entry-point group under which other distributions register commands, such as kubedsm-lab.
ENTRY_POINTS = "kubedsm.commands"
#: commands of the distribution kubedsm-lab, named here to say where they are when it is missing
LAB_COMMANDS = ("bench", "chaos", "compare", "demo", "emulate", "record", "replay")
#: module of each command, imported only when the command is requested
MODULES = {
    name: f"kubedsm.command_line.{name}"
    for name in (
        "approve",
        "config",
        "explain",
        "pack",
        "place",
        "rbac",
        "run",
        "suggest",
        "watch",
    )
}


class KubeDSMCommands(Commands):
    """Commands of this distribution, and those that installed distributions register."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all installed commands, sorted."""
        registered = entry_points(group=ENTRY_POINTS).names
        return sorted({*super().list_commands(ctx), *registered})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported now; raise ClickException for a missing lab command."""
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            return found
        for registered in entry_points(group=ENTRY_POINTS, name=cmd_name):
            command: click.Command = registered.load()
            return command
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that `args` begins with; raise ClickException if it is missing."""
        name = args[0]
        if name in LAB_COMMANDS and name not in self.list_commands(ctx):
            raise click.ClickException(
                f"`kubedsm {name}` is in the distribution kubedsm-lab, which is not installed:"
                " from a checkout, pip install ./lab"
            )
        return super().resolve_command(ctx, args)


@click.group(
    cls=KubeDSMCommands,
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
    """Run the same commands as a plugin of kubectl, which looks for `kubectl-kubedsm`."""
    run(commands, PLUGIN, (Problem,))


def complete_plugin() -> NoReturn:
    """Print completions for kubectl, which asks `kubectl_complete-kubedsm`.

    One line each, with its meaning after a tab; at last a number, as Cobra has them: 4 for
    nothing else, 0 for files too.
    """
    *given, begun = sys.argv[1:] or [""]
    found = ShellComplete(commands, {}, PLUGIN, "").get_completions(given, begun)
    for item in found:
        if item.type == "plain":
            echo(f"{item.value}\t{item.help}" if item.help else item.value)
    echo(":4" if all(item.type == "plain" for item in found) else ":0")
    sys.exit(0)
