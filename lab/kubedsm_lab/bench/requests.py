"""Benchmark of requests: load of the API server for each pod that a scheduler binds.

Read from an audit log (audit.k8s.io/v1, level Metadata or more), by User-Agent. Requests count as
during the burst from the first bind to the last, and as after it later.
"""

import asyncio
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

import attrs
import msgspec

from kubedsm.process.clock import SystemClock
from kubedsm.terminal.fitted_table import table
from kubedsm.terminal.problems import Problem
from kubedsm_lab.bench.api import APPS, Api, deployment
from kubedsm_lab.bench.burst.run import REQUESTS
from kubedsm_lab.bench.processes import Scheduler, emulated_cluster, run_command
from kubedsm_lab.bench.report import Report, format_duration, format_number
from kubedsm_lab.emulator.http.audit_log import REQUEST_BYTES, RESPONSE_BYTES
from kubedsm_lab.emulator.paper import pod_spec
from kubedsm_lab.replay.hpa.service import NODES

_BIND, _EVENT = "create pods/binding", " events"
#: seconds after the burst for Events
AFTERGLOW = 10.0
#: seconds until all pods are bound
TIMEOUT = 120.0
_NAMESPACE = "bench-requests"
_POLL_PERIOD = 0.5
_ERROR = 400


class _Reference(msgspec.Struct):
    resource: str = ""
    subresource: str = ""


class _Status(msgspec.Struct):
    code: int = 0


class AuditEvent(msgspec.Struct, rename="camel"):
    """One line of an audit log; unknown fields are ignored."""

    stage: str
    verb: str
    request_received_timestamp: datetime
    stage_timestamp: datetime
    user_agent: str = ""
    object_ref: _Reference = msgspec.field(default_factory=_Reference)
    response_status: _Status = msgspec.field(default_factory=_Status)
    annotations: dict[str, str] = {}
    #: bodies, in a log of level RequestResponse
    request_object: msgspec.Raw = msgspec.Raw()
    response_object: msgspec.Raw = msgspec.Raw()

    @property
    def kind(self) -> str:
        """Verb and resource, such as `create pods/binding`."""
        about = self.object_ref
        part = f"/{about.subresource}" if about.subresource else ""
        return f"{self.verb} {about.resource}{part}"

    @property
    def is_bind(self) -> bool:
        return self.kind == _BIND and self.response_status.code < _ERROR

    @property
    def size(self) -> int:
        """Bytes of both bodies; 0 if the log does not tell."""
        told = sum(int(self.annotations.get(name, 0)) for name in (REQUEST_BYTES, RESPONSE_BYTES))
        return told or len(bytes(self.request_object)) + len(bytes(self.response_object))


@attrs.frozen
class Usage:
    """Requests of one kind by one scheduler: numbers during and after the burst, and bytes."""

    kind: str
    during: int
    after: int
    size: int


@attrs.frozen
class SchedulerUsage:
    """Requests of one scheduler, by its User-Agent, for the pods that it bound."""

    agent: str
    bound: int
    #: seconds from the first bind to the last, and from there to the last Event
    seconds: float
    events_after: float
    usage: Sequence[Usage]

    @classmethod
    def of(cls, agent: str, events: Sequence[AuditEvent]) -> Self:
        """Summarize the requests of one User-Agent; at least one of them is a bind."""
        binds = [each for each in events if each.is_bind]
        begin = min(each.request_received_timestamp for each in binds)
        end = max(each.stage_timestamp for each in binds)
        counted = [each for each in events if each.request_received_timestamp >= begin]
        usage = []
        for kind, group in groupby(sorted(counted, key=attrgetter("kind")), attrgetter("kind")):
            same = list(group)
            during = sum(each.request_received_timestamp <= end for each in same)
            size = sum(each.size for each in same)
            usage.append(Usage(kind, during, len(same) - during, size))
        written = [each.stage_timestamp for each in counted if each.kind.endswith(_EVENT)]
        late = max([*written, end]) - end
        seconds = (end - begin) / timedelta(seconds=1)
        return cls(agent, len(binds), seconds, late / timedelta(seconds=1), usage)

    @property
    def per_pod(self) -> float:
        """Requests for each bound pod during the burst, renewals of Leases excluded."""
        about_pods = (each for each in self.usage if not each.kind.endswith(" leases"))
        return sum(each.during for each in about_pods) / self.bound


def read_log(path: Path) -> Iterator[AuditEvent]:
    """Yield the completed requests of an audit log. Raises Problem for lines of another format."""
    decoder = msgspec.json.Decoder(AuditEvent)
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    event = decoder.decode(line)
                except msgspec.MsgspecError as error:
                    problem = f"{path}, line {number}: not a line of audit.k8s.io/v1: {error}"
                    raise Problem(problem) from None
                if event.stage == "ResponseComplete":
                    yield event
    except OSError as error:
        raise Problem(str(error)) from None


def summarize(events: Iterable[AuditEvent]) -> list[SchedulerUsage]:
    """Summarize the requests of all User-Agents that bound pods, most pods first."""
    by_agent: dict[str, list[AuditEvent]] = {}
    for event in events:
        by_agent.setdefault(event.user_agent, []).append(event)
    found = [
        SchedulerUsage.of(agent, own)
        for agent, own in by_agent.items()
        if any(each.is_bind for each in own)
    ]
    return sorted(found, key=lambda each: (-each.bound, each.agent))


async def record_burst(pods: int) -> list[SchedulerUsage]:
    """Bind a burst of pods by `kubedsm run` on an emulated cluster, and summarize its audit log.

    Raises ClusterError, ChildProcessError, and TimeoutError if not all pods are bound.
    """
    clock = SystemClock()
    with tempfile.TemporaryDirectory(prefix="kubedsm-") as folder:
        log = Path(folder) / "audit.jsonl"
        async with emulated_cluster(NODES, "--audit-log", str(log)) as (kubeconfig, cluster):
            api, scheduler = Api(cluster), Scheduler(run_command(kubeconfig), clock)
            await api.create_namespace(_NAMESPACE)
            async with scheduler.running():
                async with asyncio.timeout(TIMEOUT):
                    await scheduler.log.synced.wait()
                    burst = deployment("web", pods, pod_spec(REQUESTS))
                    await api.create(_NAMESPACE, "deployments", burst, APPS)
                    # Requests for the pods would count as the scheduler's.
                    while sum(each.is_bind for each in read_log(log)) < pods:
                        await clock.sleep(_POLL_PERIOD)
                await clock.sleep(AFTERGLOW)
        return summarize(read_log(log))


def build_report(found: Sequence[SchedulerUsage], *, emulated: bool) -> Report:
    """Return tables and figures of the schedulers' requests. Raises Problem without any bind."""
    if not found:
        raise Problem("the audit log has no successful create of pods/binding")
    headings = ("pods bound", "burst", "requests a pod during it", "last Event after it")
    rows = [
        (
            side.agent,
            f"{side.bound:,}",
            format_duration(side.seconds),
            format_number(side.per_pod),
            format_duration(side.events_after),
        )
        for side in found
    ]
    parts = ("during the burst", "after it", "bytes a pod")
    lines = [
        (
            side.agent,
            each.kind,
            f"{each.during:,}",
            f"{each.after:,}",
            format_number(each.size / side.bound) if each.size else "-",
        )
        for side in found
        for each in side.usage
    ]
    return Report(
        {"emulated": emulated, "schedulers": [_as_json(side) for side in found]},
        [
            table(("scheduler", *headings), rows, numbers=headings),
            table(("scheduler", "request", *parts), lines, numbers=parts),
        ],
        ["Emulated API server."] if emulated else [],
    )


def _as_json(side: SchedulerUsage) -> Mapping[str, Any]:
    return {
        "userAgent": side.agent,
        "bound": side.bound,
        "seconds": round(side.seconds, 3),
        "requestsPerPod": round(side.per_pod, 3),
        "lastEventAfterSeconds": round(side.events_after, 3),
        "requests": {
            each.kind: {"during": each.during, "after": each.after, "bytes": each.size}
            for each in side.usage
        },
    }
