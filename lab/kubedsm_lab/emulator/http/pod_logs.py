"""Pod logs for `kubectl logs`: output of a process, or the reported state of a container."""

from collections.abc import Callable, Mapping
from typing import Self

from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.errors import ApiError, bad_request
from kubedsm_lab.emulator.api.resources import PODS, Object
from kubedsm_lab.emulator.http.listing import flag, number

#: log of the process of a pod's container so far; None without a process
Output = Callable[[Object, str], bytes | None]
#: seconds between checks for further output
_PERIOD = 0.5
_FINISHED = ("Succeeded", "Failed")
#: parameters that need times of lines, or logs by run
_REFUSED = ("sinceSeconds", "sinceTime", "timestamps", "previous")


def read_log(
    api: ApiServer, output: Output, namespace: str, name: str, query: Mapping[str, str]
) -> "bytes | LogStream":
    """Return a pod's log so far, or a stream with `follow`. Raises ApiError (400, 404)."""
    pod = api.get(PODS, namespace, name)
    refused = [each for each in _REFUSED if query.get(each)]
    if refused:
        raise bad_request(
            f"{refused[0]} has no answer here: a log holds all runs of a container, without times;"
            " --tail has one"
        )
    container = _choose_container(pod, query.get("container", ""))
    tail, limit = number(query, "tailLines"), number(query, "limitBytes")
    if not pod["spec"].get("nodeName"):
        raise bad_request(
            f"pod {name} is on no node yet, so it has no log: "
            f"it waits for its scheduler, {pod['spec'].get('schedulerName', '')}"
        )

    def read_all(pod: Object) -> bytes:
        found = output(pod, container)
        return _report_state(pod, container) if found is None else found

    log = read_all(pod)
    lines = log.splitlines(keepends=True)
    if query.get("tailLines"):
        lines = lines[max(0, len(lines) - tail) :]
    first = b"".join(lines)[: limit or None]
    if not flag(query, "follow"):
        return first
    position = len(log)

    def read_more() -> bytes | None:
        """Return the log output since the last call; None once the log is complete."""
        nonlocal position
        found = api.store.get(PODS, namespace, name)
        if found is None or found["metadata"]["uid"] != pod["metadata"]["uid"]:
            return None
        try:
            fresh = read_all(found)[position:]
        except ApiError:
            # the container waits again, and the response has begun
            return None
        position += len(fresh)
        finished = found["status"].get("phase") in _FINISHED
        return None if finished and not fresh else fresh

    return LogStream(first, read_more, api.clock)


class LogStream:
    """Async iterator of a log's present and later output, until the pod has finished."""

    content_type = "text/plain"

    def __init__(self, first: bytes, more: Callable[[], bytes | None], clock: Clock) -> None:
        self._next = first
        self._more = more
        self._clock = clock
        self._ended = False

    @property
    def waiting(self) -> int:
        """Return the number of log chunks that can be read without waiting."""
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
            self._ended = more is None
            self._next = more or b""
        part, self._next = self._next, b""
        return part


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


def _report_state(pod: Object, container: str) -> bytes:
    """Return a substitute log from the reported state, for a container without a process."""
    name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
    reported = pod["status"].get("containerStatuses") or ()
    state: Object = next((c["state"] for c in reported if c["name"] == container), {})
    if "running" not in state:
        why = (state.get("waiting") or {}).get("reason") or "ContainerCreating"
        raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: {why}')
    image = next(c.get("image", "") for c in pod["spec"]["containers"] if c["name"] == container)
    text = (
        f"kubedsm emulate: container {container} ({image}) is reported as running on {node} since "
        f"{state['running'].get('startedAt', '')}. No process runs in it, so it writes nothing.\n"
    )
    return text.encode()
