"""The command group `kubedsm`: its commands, their modules, and the process's entry points."""

import sys
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import NoReturn

import click
from click.shell_completion import ShellComplete

from kubedsm import __version__
from kubedsm.terminal.echo import echo
from kubedsm.terminal.running import Commands, run

PLUGIN = "kubectl kubedsm"
#: entry-point group for commands of other distributions, such as kubedsm-lab
ENTRY_POINTS = "kubedsm.commands"
#: commands of the distribution kubedsm-lab, for an error message without the installed distribution
LAB_COMMANDS = ("bench", "chaos", "compare", "demo", "emulate", "record", "replay")
#: commands by purpose, as `--help` lists them; commands of other distributions are listed last
GROUPS = {
    "Operate": ("run", "suggest", "approve", "pack"),
    "Adopt": ("opt-in", "opt-out", "uninstall"),
    "Inspect": ("status", "explain", "watch", "logs", "record"),
    "Diagnose": ("check", "version", "support-bundle"),
    "Configure": ("config", "rbac", "completion"),
    "Try": ("place", "demo", "emulate", "replay", "compare", "bench", "chaos"),
}
#: options with a value that kubectl accepts before the command
KUBECTL_OPTIONS = ("--kubeconfig", "--context", "-n", "--namespace", "-o", "--output")
#: module of each command, imported only when the command is requested
MODULES = {
    **{name: f"kubedsm.cli.{name}" for name in ("config", "rbac", "run")},
    **dict.fromkeys(("opt-in", "opt-out", "uninstall"), "kubedsm.cli.adoption"),
    **dict.fromkeys(
        ("check", "logs", "status", "support-bundle", "version"), "kubedsm.cli.installation"
    ),
    **dict.fromkeys(
        ("approve", "completion", "explain", "pack", "place", "suggest", "watch"),
        "kubedsm.cli.commands",
    ),
}


class KubeDSMCommands(Commands):
    """Commands of this distribution, and commands registered by other installed distributions."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; options of commands may precede the command, as in kubectl."""
        try:
            return super().parse_args(ctx, _move_options(args))
        except click.NoSuchOption as error:
            near = get_close_matches(error.option_name, KUBECTL_OPTIONS, n=1)
            known = [*(error.possibilities or ()), *near]
            raise click.NoSuchOption(error.option_name, None, known, ctx) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all installed commands, sorted."""
        registered = entry_points(group=ENTRY_POINTS).names
        return sorted({*super().list_commands(ctx), *registered})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the named command; None if no installed distribution has one."""
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            return found
        for registered in entry_points(group=ENTRY_POINTS, name=cmd_name):
            command: click.Command = registered.load()
            return command
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in groups, each with its short help."""
        left = self.list_commands(ctx)
        for title, group in (*GROUPS.items(), ("Other", tuple(left))):
            names = [name for name in group if name in left]
            left = [name for name in left if name not in names]
            found = [(name, self.get_command(ctx, name)) for name in names]
            rows = [(name, each.get_short_help_str(80)) for name, each in found if each]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that `args` begin with; raise ClickException if there is none."""
        name = args[0]
        if name in LAB_COMMANDS and name not in self.list_commands(ctx):
            raise click.ClickException(
                f"`kubedsm {name}` is in the distribution kubedsm-lab, which is not installed:"
                " from a checkout, pip install ./lab"
            )
        return super().resolve_command(ctx, args)


def _move_options(args: list[str]) -> list[str]:
    """Return the arguments with leading options of kubectl behind the command."""
    at = 0
    while at < len(args) and args[at].partition("=")[0] in KUBECTL_OPTIONS:
        at += 1 if "=" in args[at] else 2
    return [*args[at:], *args[:at]] if at < len(args) and "--" not in args else args


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
    """Schedule pods in an edge-cloud cluster, and keep edge shares at their QoS targets."""


def main() -> NoReturn:
    """Run the command line. Errors are single lines on stderr; exit code 2 for usage, else 1."""
    run(commands, "kubedsm")


def plugin() -> NoReturn:
    """Run the same commands as the kubectl plugin `kubectl-kubedsm`."""
    run(commands, PLUGIN)


def complete_plugin() -> NoReturn:
    """Print completions for kubectl, which calls `kubectl_complete-kubedsm`.

    Each line is a completion and, after a tab, its description. The last line is Cobra's directive:
    4 for no file completion, 0 for files as well.
    """
    *given, incomplete = sys.argv[1:] or [""]
    found = ShellComplete(commands, {}, PLUGIN, "").get_completions(given, incomplete)
    for item in found:
        if item.type == "plain":
            echo(f"{item.value}\t{item.help}" if item.help else item.value)
    echo(":4" if all(item.type == "plain" for item in found) else ":0")
    sys.exit(0)
