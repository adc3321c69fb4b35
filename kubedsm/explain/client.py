"""Why a pod is where it is: asked of the running scheduler, or else read from the cluster."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import TypeVar

import aiohttp
import msgspec

from kubedsm.explain.answers import Explainer
from kubedsm.explain.decision_record import ENTRIES
from kubedsm.explain.entries import rfc3339
from kubedsm.explain.explanation import EffectAnswer, Explanation, MoveAnswer
from kubedsm.explain.qos_targets import Promised
from kubedsm.kube.calls.reads import (
    PodEvent,
    events_about,
)
from kubedsm.kube.client.port import Cluster
from kubedsm.model.model import Pod, Workload

T = TypeVar("T")

#: seconds in which a scheduler that listens has to say something
SILENCE = 5.0
#: seconds: on loopback the answer comes at once, or not at all; a long one may take its time
_TIMEOUT = aiohttp.ClientTimeout(total=60.0, sock_connect=2.0, sock_read=SILENCE)
_EVENTS_TIMEOUT = 10.0
_DECIDED = ("Scheduled", "FailedScheduling")
_MOVED = ("Migrated", "MigrationFailed", "MigrationProposed")


class QuestionRefusedError(Exception):
    """The scheduler does not understand the question: its words why."""


class SilentError(Exception):
    """Something listens there, and does not answer."""


class _Pending(msgspec.Struct):
    pending: list[Explanation]


class _Promises(msgspec.Struct):
    promises: list[Promised]


class Answering(msgspec.Struct, rename="camel"):
    """A running scheduler, as it describes itself."""

    #: workloads that the edge is slower for
    slower: frozenset[Workload]
    #: writes nothing, and so takes no requests
    dry_run: bool = False
    #: uid of its cluster's namespace kube-system; empty if the scheduler does not know it yet
    cluster: str = ""
    #: decides nothing while another process leads
    standby: bool = False
    #: of a standby: the host that leads, in a cluster a pod; empty if unknown
    leader: str = ""


class _Moved(msgspec.Struct):
    at: str
    moves: list[MoveAnswer]


class _Decided(msgspec.Struct):
    decisions: list[_Moved]


async def ask(server: str, pod: str | None) -> list[Explanation] | None:
    """What a scheduler says of that pod, or of all that wait.

    None if nothing listens there, or nothing is known of the pod. Raises QuestionRefusedError, or
    SilentError.
    """
    if pod is None:
        waiting = await _asked(server, "pending", _Pending)
        return None if waiting is None else waiting.pending
    said = await _asked(server, "explain", Explanation, pod=pod)
    return None if said is None else [said]


async def answering(server: str) -> Answering | None:
    """Return the scheduler that answers there, if one does. Raises SilentError."""
    try:
        return await _asked(server, "scheduler", Answering)
    except QuestionRefusedError:
        return None  # not a scheduler of ours


async def effects_since(server: str, at: float, namespace: str) -> list[EffectAnswer] | None:
    """The effects of the moves decided on since then, seconds since the epoch, as far as are kept.

    Of pods of the namespace; None if no scheduler answers.
    """
    said = await _told(server, "", _Decided, limit=str(ENTRIES))
    if said is None:
        return None
    since = rfc3339(at)
    moves = (move for each in said.decisions if each.at >= since for move in each.moves)
    mine = (move.effect for move in moves if move.pod.startswith(f"{namespace}/"))
    return [effect for effect in mine if effect is not None]


async def _told(server: str, what: str, form: type[T], **query: str) -> T | None:
    """What is told there; whoever does not understand the question, or says nothing, is none."""
    try:
        return await _asked(server, what, form, **query)
    except (QuestionRefusedError, SilentError):
        return None


async def promises_at(server: str) -> list[Promised] | None:
    """What is promised to each workload; None if nothing answers there."""
    said = await _told(server, "promises", _Promises)
    return None if said is None else said.promises


async def _asked(server: str, what: str, form: type[T], **query: str) -> T | None:
    url = f"{server.rstrip('/')}/decisions/{what}".rstrip("/")
    try:
        async with (
            aiohttp.ClientSession(timeout=_TIMEOUT) as session,
            session.get(url, params=query) as answer,
        ):
            body, status = await answer.read(), answer.status
    except aiohttp.SocketTimeoutError:
        raise SilentError(f"what listens at {server} has said nothing for {SILENCE:g} s") from None
    except (aiohttp.ClientError, OSError):
        return None
    if status == HTTPStatus.BAD_REQUEST:
        raise QuestionRefusedError(body.decode(errors="replace").strip())
    if status != HTTPStatus.OK:
        return None
    try:
        return msgspec.json.decode(body, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # what answers there may be anything


async def from_cluster(cluster: Cluster, explainer: Explainer, pod: Pod) -> Explanation:
    """What the pod's Events say of decisions; the nodes are judged as they are now.

    Raises ClusterError, and WireError if the Events cannot be read.
    """
    events = await events_about(cluster, pod, timeout=_EVENTS_TIMEOUT)
    moves = _moves(str(pod), events)
    explanation = msgspec.structs.replace(explainer.explain_now(pod), moves=moves)
    if explanation.left_to is not None:
        return explanation  # those Events are another scheduler's
    decision = next((e for e in reversed(events) if e.reason in _DECIDED), None)
    if decision is None:
        return explanation
    if decision.reason == "Scheduled":
        why = decision.message.partition(": ")[2]
        return msgspec.structs.replace(explanation, decided_at=decision.at, summary=why)
    if explanation.bound:
        return explanation  # and so that was not the last decision
    return msgspec.structs.replace(
        explanation, decided_at=decision.at, chosen=None, message=decision.message
    )


def _moves(pod: str, events: Sequence[PodEvent]) -> tuple[MoveAnswer, ...]:
    return tuple(
        MoveAnswer(at=event.at, pod=pod, outcome=event.reason, reason=event.message)
        for event in events
        if event.reason in _MOVED
    )
