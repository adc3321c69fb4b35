"""Run a command line: however it ends, that is one line at the most, and never a traceback."""

import difflib
import errno
import io
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

import click
from click.shell_completion import CompletionItem

from kubedsm.terminal.echo import echo

#: what a signal or a closed pipe makes of an exit code
INTERRUPTED, PIPE_CLOSED = 130, 141


class Commands(click.Group):
    """A group whose commands are imported when they are asked for.

    `modules` says where each is: as an attribute of its own name, unless another one is named after
    a colon. Where its `summaries` are given, a list of the commands imports none of them.
    """

    def __init__(
        self,
        *args: Any,
        modules: Mapping[str, str] | None = None,
        summaries: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._modules = modules or {}
        self._summaries = summaries or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._modules})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._modules:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self._modules[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), attribute or cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if not ctx.resilient_parsing and args[0] not in names and args[0][:1] != "-":
            ctx.fail(f"No such command {args[0]!r}.{nearest(args[0], names)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self._summaries:
            super().format_commands(ctx, formatter)
            return
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._summaries[name]) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if not self._summaries:
            return super().shell_complete(ctx, incomplete)
        begun = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [
            *(CompletionItem(name, help=self._summaries[name]) for name in begun),
            *click.Command.shell_complete(self, ctx, incomplete),
        ]


def nearest(given: str, known: Sequence[str]) -> str:
    """A sentence for who mistyped one of the names; nothing if none is near."""
    found = difflib.get_close_matches(given, known, n=1)
    return f" Did you mean {found[0]}?" if found else ""


def run(
    command: click.Command,
    called: str,
    problems: tuple[type[Exception], ...],
    arguments: Sequence[str] | None = None,
) -> NoReturn:
    """Run it, and end the process: 2 for wrong usage, 1 for what else goes wrong outside of us."""
    name = called.rpartition(" ")[2]
    try:
        _stand_in_for_closed()
        reserve_stdout()
        ended = _Ended(command.main(arguments, prog_name=called, standalone_mode=False) or 0)
    except BaseException as error:
        told = _told(error, (*problems, OSError))
        if told is None:
            raise
        ended = told
    try:
        sys.stdout.flush()
    except OSError as error:
        _give_up_output()
        if not isinstance(error, BrokenPipeError) and not ended.line:
            ended = _Ended(1, f"standard output: {error.strerror}")
    if ended.line:
        echo(f"{name}: error: {' '.join(ended.line.split())}", err=True)
    sys.exit(ended.code)


class _Ended(NamedTuple):
    code: Any
    #: what is to be said on stderr
    line: str = ""


def _told(error: BaseException, problems: tuple[type[Exception], ...]) -> _Ended | None:
    """What becomes of it; None for a mistake of ours."""
    match error:
        case SystemExit():
            # That is how rich ends when nobody reads on.
            piped = isinstance(error.__context__, BrokenPipeError)
            return _Ended(PIPE_CLOSED if piped else error.code)
        case click.exceptions.NoArgsIsHelpError():
            echo(error.format_message())
            return _Ended(0)
        case click.ClickException():
            context = error.ctx if isinstance(error, click.UsageError) else None
            where = f" (see {context.command_path} --help)" if context is not None else ""
            return _Ended(error.exit_code, error.format_message().rstrip(".") + where)
        case BrokenPipeError():
            _give_up_output()
            return _Ended(PIPE_CLOSED)
        case BaseExceptionGroup():
            theirs, rest = error.split(problems)
            if theirs is not None and rest is None:
                return _Ended(1, _said(_first(theirs)))
    if isinstance(error, problems):
        return _Ended(1, _said(error))
    # What runs during an import may make another exception of it.
    if isinstance(error, click.Abort) or _began_as_interrupt(error):
        return _Ended(INTERRUPTED, "interrupted")
    return None


def _first(group: BaseExceptionGroup) -> BaseException:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


def _began_as_interrupt(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _said(error: BaseException) -> str:
    if not isinstance(error, OSError) or not error.strerror:
        return str(error) or type(error).__name__
    if error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if error.errno == errno.EBADF:
        return "standard input or output is closed"
    return f"standard output: {error.strerror}" if error.errno == errno.ENOSPC else error.strerror


def _stand_in_for_closed() -> None:
    """Open what the process was started without, so that nothing else takes its number.

    Input and output the wrong way round: to use them fails, as it must.
    """
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_WRONLY), "r", closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", closefd=False)


def reserve_stdout() -> None:
    """Send to stderr what libraries and child processes write to file descriptor 1.

    `sys.stdout` keeps the output that the process was started with, under another number.
    """
    shared = sys.stdout
    if shared is not sys.__stdout__ or shared is None:  # closed, or replaced within this process
        return
    shared.flush()
    unbuffered = getattr(shared, "write_through", False)
    own = os.fdopen(os.dup(shared.fileno()), "wb", 0 if unbuffered else -1)
    os.dup2(sys.stderr.fileno(), shared.fileno())
    sys.stdout = io.TextIOWrapper(
        own,
        encoding=shared.encoding,
        errors=shared.errors,
        line_buffering=shared.line_buffering,
        write_through=unbuffered,
    )


def _give_up_output() -> None:
    """Have what is still to be written go nowhere, at the end of the process too."""
    with suppress(OSError):  # what is no file has no number
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
