"""Logs of pods for `kubectl logs`: output of a process, or the reported times of a container.

Pods without processes have synthetic logs: the reported container state and timestamps.
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

#: log of the process of a pod's container so far; None without a process
Output = Callable[[Object, str], bytes | None]
#: seconds between checks for further output
_PERIOD = 0.5
_FINISHED = ("Succeeded", "Failed")


def no_output(_pod: Object, _choose_container: str) -> bytes | None:
    """Output of a cluster without processes."""
    return None


@attrs.frozen
class _LogOptions:
    container: str
    #: Unix timestamp in seconds
    since: float | None
    #: number of lines from the end; None for all
    tail: int | None
    #: bytes; 0 for all
    limit: int
    timestamps: bool
    previous: bool


@attrs.frozen
class _Line:
    #: timestamp of the API; empty if unknown
    time: str
    text: str


class PodLogs:
    def __init__(self, api: ApiServer, output: Output) -> None:
        self._api = api
        self._output = output

    def answer(self, namespace: str, name: str, query: Mapping[str, str]) -> "bytes | LogStream":
        """Return the present log, or a stream with `follow`. Raises ApiError (400, 404)."""
        pod = self._api.get(PODS, namespace, name)
        options = _parse_options(pod, query, self._api.clock.wall())
        log = self._lines(pod, options)
        first = _select_lines(log, options)
        if not flag(query, "follow"):
            return first
        return LogStream(first, lambda: self._read_more(pod, options, log), self._api.clock)

    def _read_more(self, pod: Object, options: _LogOptions, known: list[_Line]) -> bytes | None:
        """Return new lines and add them to `known`; None once no more can come."""
        metadata = pod["metadata"]
        found = self._api.store.get(PODS, metadata["namespace"], metadata["name"])
        if found is None or found["metadata"]["uid"] != metadata["uid"]:
            return None
        try:
            log = self._lines(found, options)
        except ApiError:
            # the container waits again, and the response has begun
            return None
        fresh = log[len(known) :]
        known.extend(fresh)
        if not fresh and found["status"].get("phase") in _FINISHED:
            return None
        return _text(fresh, timestamps=options.timestamps)

    def _lines(self, pod: Object, options: _LogOptions) -> list[_Line]:
        output = self._output(pod, options.container)
        if options.previous:
            name = pod["metadata"]["name"]
            raise bad_request(
                f'previous terminated container "{options.container}" in pod "{name}" not found'
                if output is None
                else "the log holds what all runs of its process have said: leave --previous away"
            )
        if output is None:
            return _report_lines(pod, options.container)
        if options.timestamps or options.since is not None:
            raise bad_request(
                "what a process said is kept without times, so --since, --since-time and "
                "--timestamps have no answer here; --tail has one"
            )
        return [_Line("", line) for line in output.decode(errors="replace").splitlines()]


class LogStream:
    """Async iterator of the log and its additions, until the pod has finished."""

    content_type = "text/plain"

    def __init__(self, first: bytes, more: Callable[[], bytes | None], clock: Clock) -> None:
        self._next = first
        self._more = more
        self._clock = clock
        self._ended = False

    @property
    def waiting(self) -> int:
        """Return the number of parts that can be read at once."""
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
            more = self._more()
            self._ended = self._ended or more is None
            self._next = more or b""
        part, self._next = self._next, b""
        return part


def _parse_options(pod: Object, query: Mapping[str, str], now: float) -> _LogOptions:
    since: float | None = None
    if query.get("sinceSeconds"):
        since = now - number(query, "sinceSeconds")
    elif query.get("sinceTime"):
        try:
            since = seconds(query["sinceTime"])
        except ValueError:
            raise bad_request(f'sinceTime: "{query["sinceTime"]}" is no time') from None
    options = _LogOptions(
        container=_choose_container(pod, query.get("container", "")),
        since=since,
        tail=number(query, "tailLines") if query.get("tailLines") else None,
        limit=number(query, "limitBytes"),
        timestamps=flag(query, "timestamps"),
        previous=flag(query, "previous"),
    )
    if not pod["spec"].get("nodeName"):
        raise bad_request(
            f"pod {pod['metadata']['name']} is on no node yet, so it has no log: "
            f"it waits for its scheduler, {pod['spec'].get('schedulerName', '')}"
        )
    return options


def _choose_container(pod: Object, given: str) -> str:
    name = pod["metadata"]["name"]
    names = [container["name"] for container in pod["spec"]["containers"]]
    if not given and len(names) > 1:
        raise bad_request(
            f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]"
        )
    given = given or names[0]
    if given in (c["name"] for c in pod["spec"].get("initContainers") or ()):
        raise bad_request(f'"{given}" is an init container, and those are not run here')
    if given not in names:
        raise bad_request(f"container {given} is not valid for pod {name}")
    return given


def _report_lines(pod: Object, container: str) -> list[_Line]:
    """Return the log of a container without a process, from its reported state."""
    name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
    reported = pod["status"].get("containerStatuses") or ()
    state: Object = next((c["state"] for c in reported if c["name"] == container), {})
    run = state.get("running") or state.get("terminated")
    if run is None:
        why = (state.get("waiting") or {}).get("reason") or "ContainerCreating"
        raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: {why}')
    image = next(c.get("image", "") for c in pod["spec"]["containers"] if c["name"] == container)
    started, ended = run.get("startedAt", ""), run.get("finishedAt", "")
    text = (
        f"kubedsm emulate: container {container} ({image}) is said to run on {node} since "
        f"{started}. No process runs in it, so it writes nothing."
    )
    lines = [_Line(started, text)]
    if "terminated" in state:
        code = run.get("exitCode", 0)
        text = f"kubedsm emulate: it is said to have ended at {ended}, with exit code {code}."
        lines.append(_Line(ended, text))
    return lines


def _select_lines(log: list[_Line], options: _LogOptions) -> bytes:
    lines = log
    if options.since is not None:
        lines = [line for line in lines if line.time and seconds(line.time) >= options.since]
    if options.tail is not None:
        lines = lines[max(0, len(lines) - options.tail) :]
    text = _text(lines, timestamps=options.timestamps)
    return text[: options.limit] if options.limit else text


def _text(lines: list[_Line], *, timestamps: bool) -> bytes:
    shown = (f"{line.time} {line.text}" if timestamps else line.text for line in lines)
    return "".join(f"{text}\n" for text in shown).encode()
