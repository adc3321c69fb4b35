"""What `kubectl logs` is told: what a process said, or when a container is said to have run.

No process runs in most pods here. Their logs say so, and hold what is known of them all the same.
"""

from collections.abc import Callable, Mapping
from typing import Self

import attrs

from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.errors import ApiError, bad_request
from kubedsm_lab.emulator.api.resources import PODS, Object
from kubedsm_lab.emulator.api.values import seconds
from kubedsm_lab.emulator.http.listing import flag, number

#: what the process of a pod's container has said so far; None if it is none
Output = Callable[[Object, str], bytes | None]
#: seconds from one look for more to the next
_PERIOD = 0.5
_FINISHED = ("Succeeded", "Failed")


def no_output(_: Object, __: str) -> bytes | None:
    """Of a cluster that runs no processes."""
    return None


@attrs.frozen
class _Asked:
    container: str
    #: seconds since the epoch
    since: float | None
    #: how many lines from the end; None for all
    tail: int | None
    #: bytes; 0 for all
    limit: int
    timestamps: bool
    previous: bool


class PodLogs:
    def __init__(self, api: ApiServer, output: Output) -> None:
        self._api = api
        self._output = output

    def answer(self, namespace: str, name: str, query: Mapping[str, str]) -> "bytes | LogStream":
        """The log so far, or with `follow` a stream of it. Raises ApiError (400, 404)."""
        pod = self._api.get(PODS, namespace, name)
        asked = _asked(pod, query, self._api.clock.wall())
        log = self._lines(pod, asked)
        first = _shown(log, asked)
        if not flag(query, "follow"):
            return first
        uid = pod["metadata"]["uid"]
        return LogStream(
            first, lambda: self._later(uid, namespace, name, asked, log), self._api.clock
        )

    def _later(
        self, uid: str, namespace: str, name: str, asked: _Asked, known: list["_Line"]
    ) -> bytes | None:
        """What came since; None when no more can come. `known` is brought up to date."""
        found = self._api.store.get(PODS, namespace, name)
        if found is None or found["metadata"]["uid"] != uid:
            return None
        try:
            log = self._lines(found, asked)
        except ApiError:
            # its container waits again, and the answer has begun long ago
            return None
        fresh = log[len(known) :]
        known.extend(fresh)
        if not fresh and found["status"].get("phase") in _FINISHED:
            return None
        return _text(fresh, timestamps=asked.timestamps)

    def _lines(self, pod: Object, asked: _Asked) -> list["_Line"]:
        output = self._output(pod, asked.container)
        if asked.previous:
            name = pod["metadata"]["name"]
            raise bad_request(
                f'previous terminated container "{asked.container}" in pod "{name}" not found'
                if output is None
                else "the log holds what all runs of its process have said: leave --previous away"
            )
        if output is None:
            return _of_status(pod, asked.container)
        if asked.timestamps or asked.since is not None:
            raise bad_request(
                "what a process said is kept without times, so --since, --since-time and "
                "--timestamps have no answer here; --tail has one"
            )
        return [_Line("", line) for line in output.decode(errors="replace").splitlines()]


class LogStream:
    """An async iterator of what a log holds and gains, until its pod is over."""

    content_type = "text/plain"

    def __init__(self, first: bytes, later: Callable[[], bytes | None], clock: Clock) -> None:
        self._next = first
        self._later = later
        self._clock = clock
        self._ended = False

    @property
    def waiting(self) -> int:
        """How many pieces can be read at once."""
        return 1 if self._next else 0

    def end(self) -> None:
        self._ended = True

    async def aclose(self) -> None:
        self.end()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self._next:
            if self._ended:
                raise StopAsyncIteration
            await self._clock.sleep(_PERIOD)
            more = self._later()
            if more is None:
                self._ended = True
            else:
                self._next = more
        given, self._next = self._next, b""
        return given


@attrs.frozen
class _Line:
    #: as the API writes it; empty if it is not known
    time: str
    text: str


def _asked(pod: Object, query: Mapping[str, str], now: float) -> _Asked:
    since: float | None = None
    if query.get("sinceSeconds"):
        since = now - number(query, "sinceSeconds")
    elif query.get("sinceTime"):
        try:
            since = seconds(query["sinceTime"])
        except ValueError:
            raise bad_request(f'sinceTime: "{query["sinceTime"]}" is no time') from None
    asked = _Asked(
        container=_container(pod, query.get("container", "")),
        since=since,
        tail=number(query, "tailLines") if query.get("tailLines") else None,
        limit=number(query, "limitBytes"),
        timestamps=flag(query, "timestamps"),
        previous=flag(query, "previous"),
    )
    name = pod["metadata"]["name"]
    if not pod["spec"].get("nodeName"):
        scheduler = pod["spec"].get("schedulerName", "")
        raise bad_request(
            f"pod {name} is on no node yet, so it has no log: "
            f"it waits for its scheduler, {scheduler}"
        )
    return asked


def _container(pod: Object, asked: str) -> str:
    name = pod["metadata"]["name"]
    names = [container["name"] for container in pod["spec"]["containers"]]
    if not asked and len(names) > 1:
        raise bad_request(
            f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]"
        )
    asked = asked or names[0]
    if asked in (c["name"] for c in pod["spec"].get("initContainers") or ()):
        raise bad_request(f'"{asked}" is an init container, and those are not run here')
    if asked not in names:
        raise bad_request(f"container {asked} is not valid for pod {name}")
    return asked


def _of_status(pod: Object, container: str) -> list[_Line]:
    """What a kubelet that runs nothing has to say."""
    name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
    reported = pod["status"].get("containerStatuses") or ()
    state: Object = next((c["state"] for c in reported if c["name"] == container), {})
    run = state.get("running") or state.get("terminated")
    if run is None:
        why = (state.get("waiting") or {}).get("reason") or "ContainerCreating"
        raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: {why}')
    image = next(c.get("image", "") for c in pod["spec"]["containers"] if c["name"] == container)
    lines = [
        _Line(
            run.get("startedAt", ""),
            f"kubedsm emulate: container {container} ({image}) is said to run on {node} since "
            f"{run.get('startedAt', '')}. No process runs in it, so it writes nothing.",
        )
    ]
    if "terminated" in state:
        ended, code = run.get("finishedAt", ""), run.get("exitCode", 0)
        text = f"kubedsm emulate: it is said to have ended at {ended}, with exit code {code}."
        lines.append(_Line(ended, text))
    return lines


def _shown(log: list[_Line], asked: _Asked) -> bytes:
    lines = log
    if asked.since is not None:
        lines = [line for line in lines if line.time and seconds(line.time) >= asked.since]
    if asked.tail is not None:
        lines = lines[max(0, len(lines) - asked.tail) :]
    text = _text(lines, timestamps=asked.timestamps)
    return text[: asked.limit] if asked.limit else text


def _text(lines: list[_Line], *, timestamps: bool) -> bytes:
    shown = (f"{line.time} {line.text}" if timestamps else line.text for line in lines)
    return "".join(f"{text}\n" for text in shown).encode()
