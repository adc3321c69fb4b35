"""The command line: which commands there are, and what becomes of their errors."""

import errno
import sys
from importlib import import_module
from typing import NoReturn

import click
from click.shell_completion import ShellComplete

from kubedsm import __version__
from kubedsm.cluster.client.port import ClusterError
from kubedsm.cluster.wire.errors import WireError
from kubedsm.configuration.documents import DocumentError
from kubedsm.emulator.http.certificates import CertificateError
from kubedsm.listening import AddressUnavailableError
from kubedsm.runtime.leader_election import NotLeadingError

#: what goes wrong outside of us: a line for the user, exit code 1
PROBLEMS = (
    AddressUnavailableError,
    CertificateError,
    ClusterError,
    DocumentError,
    NotLeadingError,
    OSError,
    WireError,
)

PLUGIN = "kubectl kubedsm"
#: the module of each; all of them take a second to import, so only the one asked for is
MODULES = {
    "approve": "kubedsm.commands.approving",
    "bench": "kubedsm.commands.bench",
    "chaos": "kubedsm.commands.chaos",
    "compare": "kubedsm.commands.comparing",
    "config": "kubedsm.commands.configuring",
    "demo": "kubedsm.commands.demo",
    "emulate": "kubedsm.commands.emulating",
    "explain": "kubedsm.commands.explaining",
    "pack": "kubedsm.commands.packing",
    "place": "kubedsm.commands.deciding",
    "rbac": "kubedsm.commands.rbac",
    "record": "kubedsm.commands.recording",
    "replay": "kubedsm.replay.command",
    "run": "kubedsm.commands.serving",
    "suggest": "kubedsm.commands.deciding",
}


class Commands(click.Group):
    """Those of `MODULES`, each under its own name."""

    def list_commands(self, _: click.Context) -> list[str]:
        return list(MODULES)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        if name not in MODULES:
            return None
        command: click.Command = getattr(import_module(MODULES[name]), name)
        return command


@click.group(
    cls=Commands,
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
    _main("kubedsm")


def plugin() -> NoReturn:
    """The same as a plugin of kubectl, which looks for `kubectl-kubedsm` on the PATH."""
    _main(PLUGIN)


def complete_plugin() -> NoReturn:
    """What may come next, for kubectl, which asks `kubectl_complete-kubedsm`.

    A line for each, with its meaning after a tab; at last a number, as Cobra has them: 4 for
    nothing else, 0 for files too.
    """
    *given, begun = sys.argv[1:] or [""]
    found = ShellComplete(commands, {}, PLUGIN, "").get_completions(given, begun)
    for item in found:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(":4" if all(item.type == "plain" for item in found) else ":0")
    sys.exit(0)


def _main(called: str) -> NoReturn:
    try:
        commands.main(prog_name=called, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        sys.exit(2)
    except click.UsageError as error:
        where = f" (see {error.ctx.command_path} --help)" if error.ctx is not None else ""
        _fail(error.format_message() + where, 2)
    except click.ClickException as error:
        _fail(error.format_message(), 1)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted", 130)
    except BrokenPipeError:
        sys.exit(141)
    except PROBLEMS as error:
        _fail(_said(error), 1)
    except BaseExceptionGroup as group:
        problems, rest = group.split(PROBLEMS)
        if rest is not None or problems is None:
            raise
        _fail(_said(_first(problems)), 1)
    sys.exit(0)


def _first(group: BaseExceptionGroup) -> BaseException:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


def _said(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"standard output: {error.strerror}"  # files have names
    return str(error)


def _fail(message: str, code: int) -> NoReturn:
    click.echo(f"kubedsm: error: {' '.join(message.split())}", err=True)
    sys.exit(code)
