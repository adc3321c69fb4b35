"""Client of the running scheduler's diagnostics port, and facts about a pod from its Events."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, TypeVar

import aiohttp
import msgspec

from kubedsm.explain.explainer import Explainer
from kubedsm.explain.explanation import Explanation
from kubedsm.explain.facts import Answering, MigrationFacts, PodFacts, QosTargetFacts
from kubedsm.explain.subjects import Subject
from kubedsm.kube.calls.reads import PodEvent, events_about
from kubedsm.kube.client.port import Cluster
from kubedsm.model.model import Pod

T = TypeVar("T")

#: response time limit of a listening scheduler, in seconds
SILENCE = 5.0
#: seconds; a response over loopback begins at once, and a long one may take a while
_TIMEOUT = aiohttp.ClientTimeout(total=60.0, sock_connect=2.0, sock_read=SILENCE)
#: an explanation may begin after a search for migrations (`suggester.budget`), or after all pending
#: pods are evaluated; whether a scheduler listens is known before
_PATIENT = aiohttp.ClientTimeout(total=60.0, sock_connect=2.0, sock_read=20.0)
_DECIDED = ("Scheduled", "FailedScheduling")
_MOVED = ("Migrated", "MigrationFailed", "MigrationProposed")


class RequestRefusedError(Exception):
    """Error: the scheduler refused the request, with the reason as message."""


class SilentError(Exception):
    """Error: a process listens at the address, but does not respond."""


class _Pending(msgspec.Struct):
    pending: list[PodFacts]


class _QosTargets(msgspec.Struct):
    targets: list[QosTargetFacts]


async def explain(server: str, subject: Subject) -> Explanation[dict[str, Any]] | None:
    """Request an explanation from the running scheduler; None without scheduler or knowledge.

    Raise RequestRefusedError, or SilentError.
    """
    form = Explanation[dict[str, Any]]
    return await _get(server, "explain", form, _PATIENT, **{subject.kind: subject.name})


async def explain_pending(server: str) -> list[PodFacts] | None:
    """Request the facts about all pending pods. Raise the same errors as `explain`."""
    waiting = await _get(server, "pending", _Pending, _PATIENT)
    return None if waiting is None else waiting.pending


async def answering(server: str) -> Answering | None:
    """Return the self-description of the scheduler responding at `server`, if any.

    Raise SilentError.
    """
    try:
        return await _get(server, "scheduler", Answering)
    except RequestRefusedError:
        return None  # not a scheduler of ours


async def qos_targets_at(server: str) -> list[QosTargetFacts] | None:
    """Request the QoS target of each workload from the scheduler at `server`; None without any."""
    found = await get_if_understood(server, "targets", _QosTargets)
    return None if found is None else found.targets


async def get_if_understood(server: str, what: str, form: type[T], **query: str) -> T | None:
    """Return the diagnostics response; None if the process refuses or does not respond."""
    try:
        return await _get(server, what, form, **query)
    except (RequestRefusedError, SilentError):
        return None


async def _get(
    server: str,
    what: str,
    form: type[T],
    timeout: aiohttp.ClientTimeout | None = None,
    /,
    **query: str,
) -> T | None:
    timeout = timeout or _TIMEOUT
    url = f"{server.rstrip('/')}/decisions/{what}".rstrip("/")
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(url, params=query) as answer,
        ):
            body, status = await answer.read(), answer.status
    except aiohttp.SocketTimeoutError:
        raise SilentError(f"{server} has not responded for {timeout.sock_read:g} s") from None
    except (aiohttp.ClientError, OSError):
        return None
    if status == HTTPStatus.BAD_REQUEST:
        raise RequestRefusedError(body.decode(errors="replace").strip())
    if status != HTTPStatus.OK:
        return None
    try:
        return msgspec.json.decode(body, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # what answers there may be anything


async def facts_from_cluster(cluster: Cluster, explainer: Explainer, pod: Pod) -> PodFacts:
    """Return the facts about a pod: decisions by its Events, verdicts of nodes as they are now.

    Raise ClusterError if the Events cannot be read.
    """
    events = await events_about(cluster, pod)
    moves = _migrations(str(pod), events)
    facts = msgspec.structs.replace(explainer.explain(pod, "now"), moves=moves)
    if facts.left_to is not None:
        return facts  # the Events are another scheduler's
    decision = next((e for e in reversed(events) if e.reason in _DECIDED), None)
    if decision is None:
        return facts
    if decision.reason == "Scheduled":
        why = decision.message.partition(": ")[2]
        return msgspec.structs.replace(facts, decided_at=decision.at, summary=why)
    if facts.bound:
        return facts  # a later decision bound the pod
    return msgspec.structs.replace(
        facts, decided_at=decision.at, chosen=None, message=decision.message
    )


def _migrations(pod: str, events: Sequence[PodEvent]) -> tuple[MigrationFacts, ...]:
    return tuple(
        MigrationFacts(at=event.at, pod=pod, outcome=event.reason, reason=event.message)
        for event in events
        if event.reason in _MOVED
    )
