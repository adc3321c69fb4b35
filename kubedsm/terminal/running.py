"""Runner of a command line: failures are reported on a single line, never as a traceback."""

import difflib
import errno
import io
import os
import resource
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

import click

from kubedsm.terminal.echo import echo
from kubedsm.terminal.problems import Problem

#: exit codes after a signal, and after the reader of a pipe has gone
INTERRUPTED, PIPE_CLOSED = 130, 141


class Commands(click.Group):
    """Click command group that imports each command's module only when needed.

    `modules` maps each command to a module. The command is the attribute of the same name, with
    underscores for hyphens, or the attribute named after a colon.
    """

    def __init__(self, *args: Any, modules: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._modules = modules or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._modules})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._modules:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self._modules[cmd_name].partition(":")
        command: click.Command = getattr(
            import_module(module), attribute or cmd_name.replace("-", "_")
        )
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if not ctx.resilient_parsing and args[0] not in names and args[0][:1] != "-":
            ctx.fail(f"No such command {args[0]!r}.{nearest(args[0], names)}")
        return super().resolve_command(ctx, args)


def nearest(given: str, known: Sequence[str]) -> str:
    """Return a sentence that suggests the most similar known name; empty if none is similar."""
    found = difflib.get_close_matches(given, known, n=1)
    return f" Did you mean {found[0]}?" if found else ""


def run(command: click.Command, called: str, arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command, and exit: 2 for wrong usage, 1 for a Problem or an OSError."""
    name = called.rpartition(" ")[2]
    try:
        _replace_closed_streams()
        reserve_stdout()
        ended = _Ended(command.main(arguments, prog_name=called, standalone_mode=False) or 0)
    except BaseException as error:
        if (found := _classify(error)) is None:
            raise
        ended = found
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
    #: line for stderr
    line: str = ""


def _classify(error: BaseException) -> _Ended | None:
    """Return exit code and message for an expected exception; None for a programming error."""
    match error:
        case SystemExit():
            # rich exits this way after the reader of a pipe has disappeared.
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
            problems, rest = error.split((Problem, OSError))
            if problems is not None and rest is None:
                return _Ended(1, _describe(_first(problems)))
        case Problem() | OSError():
            return _Ended(1, _describe(error))
        case MemoryError():
            return _Ended(1, "out of memory")
    # Code executed during an import may convert the interrupt to another exception.
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


def _describe(error: BaseException) -> str:
    if not isinstance(error, OSError) or not error.strerror:
        return str(error) or type(error).__name__
    if error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if error.errno == errno.EBADF:
        return "standard input or output is closed"
    return f"standard output: {error.strerror}" if error.errno == errno.ENOSPC else error.strerror


def _replace_closed_streams() -> None:
    """Open missing standard streams, before other files occupy their descriptors.

    Each stream is opened in the opposite direction: reading stdin or writing stdout fails.
    """
    for name, flags, mode in (
        ("stdin", os.O_WRONLY, "r"),
        ("stdout", os.O_RDONLY, "w"),
        ("stderr", os.O_WRONLY, "w"),
    ):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode, closefd=False))


def raise_file_limit() -> None:
    """Raise the process's soft limit of open files to the hard limit, as Go programs do."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # some systems refuse an infinite limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def reserve_stdout() -> None:
    """Redirect file descriptor 1 (output of libraries and child processes) to stderr.

    `sys.stdout` retains the original output under another descriptor.
    """
    shared = sys.stdout
    if shared is not sys.__stdout__ or shared is None:  # replaced within this process, or closed
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
    """Discard buffered output after a closed pipe, including at process exit."""
    with suppress(OSError):  # streams other than files have no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
