"""Output and shutdown of commands: JSON on stdout, remarks and logs on stderr, and graceful exit on
signals.
"""

import asyncio
import contextlib
import logging
import math
import os
import signal
import sys
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

import msgspec
import orjson

from kubedsm.terminal.echo import echo, escape_json, escape_unprintable
from kubedsm.terminal.running import INTERRUPTED

# structlog imports rich, if installed, for tracebacks that `log_to` does not use: 3 MB, 0.1 s.
if "rich" not in sys.modules:
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog
    finally:
        del sys.modules["rich"]
import structlog

#: seconds
PROGRESS_PERIOD = 3


def print_json(value: object) -> None:
    """Print the value on stdout as one line of JSON."""
    sys.stdout.buffer.write(escape_json(orjson.dumps(value)) + b"\n")
    sys.stdout.buffer.flush()


def print_document(document: Any, output: str) -> None:
    """Print a document as JSON or YAML."""
    if output == "yaml":
        echo(msgspec.yaml.encode(document).decode(), nl=False)
    else:
        print_json(document)


def remark(text: str) -> None:
    """Print a one-line message for the user on stderr."""
    echo(f"kubedsm: {' '.join(text.split())}", err=True)


@contextlib.contextmanager
def progress(doing: str, budget: float) -> Iterator[None]:
    """Context manager: report on stderr every 3 seconds that the block is still running."""
    ended = threading.Event()

    def report() -> None:
        seconds = 0
        while not ended.wait(PROGRESS_PERIOD):
            seconds += PROGRESS_PERIOD
            remark(f"{doing}: {seconds} s of at most {budget:g} s")

    reporting = threading.Thread(target=report, daemon=True)
    reporting.start()
    try:
        yield
    finally:
        ended.set()
        reporting.join()


def log_to(*, json: bool = False, level: str = "INFO", stdout: bool = False) -> None:
    """Configure logging as text or JSON lines, on stderr or stdout."""
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if not json:
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty() and not os.environ.get("NO_COLOR"),
            exception_formatter=structlog.dev.plain_traceback,
        )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # Tracebacks without the values of variables: a cluster does not fit on a screen.
            structlog.processors.format_exc_info,
            *([] if json else [_escape_values]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stdout if stdout else sys.stderr),
    )
    logging.lastResort = _LibraryLog(logging.WARNING)


class _LibraryLog(logging.Handler):
    """Handler that logs warnings of asyncio and other libraries as structured events."""

    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger().log(
            record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info
        )


def _escape_values(
    _: object, __: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Escape the text values of a log event; the console renderer escapes other values."""
    return {
        key: escape_unprintable(value) if isinstance(value, str) else value
        for key, value in event.items()
    }


#: seconds within which a signal only repeats the first one: `timeout` sends it to the process, and
#: to its group
ECHO = 0.2


class Stop:
    """Request for graceful shutdown, made by the first SIGINT or SIGTERM."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        #: a task waits for `asked`; otherwise a signal cancels everything immediately
        self.heeded = False
        #: number of the first signal; 0 if none came
        self.by = 0

    @property
    def exit_code(self) -> int:
        """Exit code that shells report for a process terminated by the received signal."""
        return 128 + self.by if self.by else 0


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Context manager for a long computation in an event loop: SIGINT and SIGTERM end the process
    now. The loop would handle them after the computation.
    """
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGTERM: signal.signal(signal.SIGTERM, signal.SIG_DFL),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def until_interrupted(serving: Coroutine[Any, Any, int | None], stop: Stop | None = None) -> int:
    """Run a coroutine to its end; SIGINT or SIGTERM cancels the coroutine and waits for cleanup.

    Return the exit code: the result, 0 without one, or the code of an interruption. If `stop` is
    heeded, the first signal only sets `stop.asked`.
    """

    async def serve() -> int:
        task = asyncio.ensure_future(serving)
        loop = asyncio.get_running_loop()
        asked_at = -math.inf

        def interrupt(number: int) -> None:
            nonlocal asked_at
            if stop is not None:
                stop.by = stop.by or number
            if stop is not None and stop.heeded and not stop.asked.is_set():
                stop.asked.set()
                asked_at = loop.time()
            elif loop.time() - asked_at >= ECHO:
                task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, interrupt, number)
        try:
            return await task or 0
        except asyncio.CancelledError:
            return INTERRUPTED

    return asyncio.run(serve())
