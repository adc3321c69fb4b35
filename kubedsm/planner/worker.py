"""The scheduler's end of its worker process: it is started, told, asked, and started again.

It is told what the mirror is told, in the same order, gathered for a moment; a new one first the
calls that make its mirror, a few in each turn of the event loop. A question comes after all that
the mirror has been told by then, so that both are about the same cluster. It is answered when those
before it are; an urgent one has these answered with what is known by then, as any has those that
are idle.
"""

import asyncio
import random
import sys
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import nullcontext, suppress
from itertools import chain, islice
from typing import Protocol, TypeVar

import structlog

from kubedsm.config.current import CurrentConfiguration
from kubedsm.config.fields import document
from kubedsm.config.settings import Configuration
from kubedsm.model.model import Uid
from kubedsm.planner.child_process import ANNOUNCED, Answered, Asked, Configured, Said
from kubedsm.planner.frames import LENGTH, framed, pickled, unpickled, unpickled_answer
from kubedsm.planner.mirror_replication import ToldMirror
from kubedsm.planner.requests import NoAnswerError, Question
from kubedsm.process.backoff import Backoff
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import SaidByCause

log = structlog.get_logger()

T = TypeVar("T")

#: things said in one turn of the event loop: 4 ms of it
AT_ONCE = 500
#: seconds that what is to be said is gathered
GATHER = 0.5
#: seconds beyond its budget that an answer is waited for, before the worker is taken for stuck
PATIENCE = 30.0
#: seconds that it has to end by itself
GRACE = 1.0
#: seconds that it may take to be up to date at first: what is asked before is no news
STARTS = 10.0
#: seconds after which one that ended had worked
WORKED_AFTER = 60.0


class WorkerEndedError(Exception):
    """The process is gone, and nobody had told it to go."""


class WrongAnswerError(Exception):
    """A mistake of our own while an answer was worked out, with its traceback."""


class WorkerListener(Protocol):
    def worker_started(self) -> None:
        """A worker process was started, and is up to date."""

    def unanswered(self, question: str) -> None:
        """A question of that name has no answer: the process ended, or took too long."""


class Worker:
    """Whoever listens hears of each process, and of each question that it does not answer."""

    def __init__(
        self,
        mirror: ToldMirror,
        followed: Collection[Uid],
        configuration: CurrentConfiguration,
        clock: Clock,
        rng: random.Random,
        said: SaidByCause,
        listener: WorkerListener,
    ) -> None:
        self._mirror = mirror
        self._followed = followed
        self._configuration = configuration
        self._clock = clock
        self._rng = rng
        self._said = said
        self._listener = listener
        #: what it has yet to be told, and whether there is anything
        self._to_tell: deque[Said] = deque()
        self._news = asyncio.Event()
        #: set when there is a question among it
        self._asked = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        #: until when it is no news that none is up to date
        self._starts_until = clock.monotonic() + STARTS
        #: of a process that is up to date, but for what it has yet to be told
        self._stdin: asyncio.StreamWriter | None = None
        #: one question at a time that is neither urgent nor idle
        self._asking = asyncio.Lock()
        #: how many idle ones have no answer yet
        self._idle = 0
        self._number = 0
        self._answers: dict[int, asyncio.Future[Answered]] = {}
        configuration.observe(self._reconfigured)

    async def run(self) -> None:
        """Keep a worker process, until cancelled."""
        backoff = Backoff(self._rng)
        while True:
            began = self._clock.monotonic()
            try:
                await self._one_life()
            except* (WorkerEndedError, OSError) as ended:
                self._said.log(log.warning, "worker ended", str(ended.exceptions[0]))
            if self._clock.monotonic() - began >= WORKED_AFTER:
                backoff.succeeded()
            await self._clock.sleep(backoff.failed())

    async def ask(self, question: Question[T], *, idle: bool = False) -> T:
        """Return the answer, with pods as they were. Raises NoAnswerError, and WrongAnswerError."""
        async with nullcontext() if question.urgent or idle else self._asking:
            announced = question.urgent or (self._idle > 0 and not idle)
            self._idle += idle
            try:
                return await self._answered(question, announced=announced)
            except NoAnswerError as error:
                starts = self._clock.monotonic() < self._starts_until
                write = log.debug if starts else log.warning
                self._said.log(write, "no answer", str(error), question=question.name)
                self._listener.unanswered(question.name)
                raise
            finally:
                self._idle -= idle

    async def _answered(self, question: Question[T], *, announced: bool) -> T:
        if self._stdin is None:
            raise NoAnswerError("the worker is not up to date yet")
        self._number += 1
        number, pods = self._number, self._mirror.snapshot().pods
        followed, changes = frozenset(self._followed), self._mirror.changes
        asked = Asked(number, question, followed, changes, announced)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        if announced:
            self._stdin.write(framed(ANNOUNCED))
        self._tell(asked)
        self._asked.set()
        seconds = question.budget + PATIENCE
        try:
            async with asyncio.timeout(seconds):
                answered = await answer
        except TimeoutError:
            if self._process is not None:
                self._process.kill()
            raise NoAnswerError(f"the worker took more than {seconds:g} s") from None
        finally:
            del self._answers[number]
        if answered.error:
            raise WrongAnswerError(answered.error)
        # About the cluster as it was: some may be gone by now.
        found: T = unpickled_answer(answered.answer, pods.__getitem__)
        return found

    async def _one_life(self) -> None:
        """Start a process, and go on until it is gone. Raises WorkerEndedError and OSError."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "kubedsm.planner"),
            stdin=pipe,
            stdout=pipe,
            # What a terminal or an init system sends to all of us is for the scheduler alone.
            start_new_session=True,
        )
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the worker's input and output are not piped")
        self._process = process
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_told(process.stdin))
                tasks.create_task(self._listen(process, process.stdout))
        finally:
            self._mirror.tell = self._stdin = self._process = None
            self._to_tell.clear()
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(NoAnswerError("the worker ended"))
            await _ended(process, process.stdin)

    async def _keep_told(self, stdin: asyncio.StreamWriter) -> None:
        beginning: Iterator[Said] = chain((self._configured(),), self._mirror.retold())
        self._mirror.tell = self._tell
        while chunk := list(islice(beginning, AT_ONCE)):
            await self._said_to(stdin, chunk)
        self._stdin, self._starts_until = stdin, 0.0
        self._listener.worker_started()
        while True:
            await self._news.wait()
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(GATHER):
                    await self._asked.wait()
            self._asked.clear()
            while chunk := self._taken(AT_ONCE):
                await self._said_to(stdin, chunk)

    async def _said_to(self, stdin: asyncio.StreamWriter, said: Sequence[Said]) -> None:
        _say(stdin, said)
        with suppress(ConnectionError):  # that it is gone is heard of at the other pipe
            await stdin.drain()
        await self._clock.sleep(0)

    async def _listen(
        self, process: asyncio.subprocess.Process, stdout: asyncio.StreamReader
    ) -> None:
        with suppress(asyncio.IncompleteReadError):
            while True:
                (length,) = LENGTH.unpack(await stdout.readexactly(LENGTH.size))
                answered: Answered = unpickled(await stdout.readexactly(length))
                waiting = self._answers.get(answered.number)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answered)
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await process.wait()
        raise WorkerEndedError(f"status {process.returncode}")

    def _configured(self) -> Configured:
        return Configured(document(self._configuration.current))

    def _reconfigured(self, _: Configuration) -> None:
        if self._mirror.tell is not None:
            self._tell(self._configured())

    def _tell(self, said: Said) -> None:
        self._to_tell.append(said)
        self._news.set()

    def _taken(self, most: int) -> list[Said]:
        return [self._to_tell.popleft() for _ in range(min(most, len(self._to_tell)))]


def _say(stdin: asyncio.StreamWriter, said: Sequence[Said]) -> None:
    stdin.write(framed(pickled(said)))


async def _ended(process: asyncio.subprocess.Process, stdin: asyncio.StreamWriter) -> None:
    """Have it ended: the end of its input tells it to; then it is killed."""
    stdin.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE):
            await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()
