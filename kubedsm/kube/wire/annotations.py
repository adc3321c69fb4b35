"""Annotations of KubeDSM: migration marks on pods, migration requests, and tenants' QoS wishes.

Annotations are untrusted: any user with access to the object can write annotations. Hence length
limits; unparsable values count as absent, with a reported reason.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

import msgspec

from kubedsm.config.documents import shown
from kubedsm.config.services import MODES, MOST_REQUESTS, Mode
from kubedsm.kube.client.port import is_name
from kubedsm.kube.wire.errors import UNREADABLE
from kubedsm.model.model import (
    DEMAND_ANNOTATION,
    MIGRATING_LABEL,
    MIGRATION_ANNOTATION,
    QOS_ANNOTATION,
    RATE_ANNOTATION,
    TEMPLATE_HASH_LABEL,
    Wishes,
)

#: node on which the volume of a claim is to be provisioned, read by provisioners
SELECTED_NODE_ANNOTATION = "volume.kubernetes.io/selected-node"
MOVE_ANNOTATION = "kubedsm.io/move"
REQUEST_ANNOTATION = "kubedsm.io/requested-moves"
ANSWER_ANNOTATION = "kubedsm.io/requested-moves-answer"
#: characters of a request: all annotations of an object together may have 256 KiB
LONGEST = 100_000
#: characters of a tenant's annotation: no valid value has more
_LONGEST_WISH = 100
#: characters, and sites, of declared demand
_LONGEST_DEMAND, _MOST_SITES = 4000, 64

#: not started; in progress; finished as far as possible; outcome unknown
State = Literal["refused", "taken", "ended", "lost"]
#: reason of a refusal
Cause = Literal["paused", "stale", "busy", "unreadable"]


class _Json(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    def __str__(self) -> str:
        return msgspec.json.encode(self).decode()


class MoveMark(_Json, frozen=True):
    """Annotation on a pod detached by a migration, which lets a restarted scheduler restore the
    pod.

    Another version of the scheduler may omit all fields but the owner's.
    """

    #: name and uid of the former owner
    replica_set: str
    uid: str
    plan: str = ""
    #: intended node of the replacement
    target: str = ""
    #: seconds since the epoch
    since: str = ""

    @property
    def began(self) -> float:
        """Start time of the migration, in whole seconds since the epoch; 0 if unreadable."""
        try:
            return float(int(float(self.since)))
        except (ValueError, OverflowError):
            return 0.0


_MARK = msgspec.json.Decoder(MoveMark)


def mark_of(
    labels: Mapping[str, str], annotation: str | None, controller: tuple[str, str, str] | None
) -> MoveMark | None:
    """Return the pod's migration annotation, if complete and consistent with labels and owner.

    `controller` is kind, name and uid of the pod's owner. Immediately after detaching, the marked
    ReplicaSet is still the controller. Only a live read can confirm the migration with the owner
    (`reads.read_owner`).
    """
    template_hash = labels.get(MIGRATING_LABEL)
    if not template_hash or not annotation or TEMPLATE_HASH_LABEL in labels:
        return None
    try:
        mark = _MARK.decode(annotation)
    except UNREADABLE:
        return None
    named = is_name(mark.replica_set) and mark.replica_set.endswith(f"-{template_hash}")
    owner = ("ReplicaSet", mark.replica_set, mark.uid)
    return mark if named and mark.uid and controller in (None, owner) else None


class RequestedMove(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Requested migration of one pod, with the fields of `optimizer.moving.suggestion.Move`."""

    #: namespace/name
    pod: str
    uid: str
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    stopover: str = ""
    #: names of prerequisite legs
    needs: tuple[str, ...] = ()
    group: int = 0
    gain: float = 0.0
    rebalances: bool = False
    preferred: bool = False
    load_scores: tuple[float, float] | None = None


class MoveRequest(_Json, frozen=True):
    """Request to migrate pods, on a ConfigMap of the scheduler (`migration_requests`)."""

    id: str
    #: seconds since the epoch
    at: float
    #: id of the proposal. Without moves, the scheduler's current proposal of that id is meant.
    proposal: str
    moves: tuple[RequestedMove, ...] = ()


class MoveAnswer(msgspec.Struct, frozen=True):
    """Outcome of one migration that a client requested by annotation."""

    pod: str
    target: str
    #: value of `explain.migration_outcome.Outcome`
    outcome: str
    reason: str = ""

    def __str__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.pod} to {self.target} {self.outcome}{reason}"


class RequestAnswer(_Json, frozen=True):
    """Scheduler's response to a migration request, stored on an Event about the ConfigMap."""

    #: id of the request
    request: str
    state: State
    #: for people
    text: str
    cause: Cause | None = None
    moves: tuple[MoveAnswer, ...] = ()


class UnreadableRequestError(ValueError):
    """Error: the annotation is not a migration request."""


_REQUEST = msgspec.json.Decoder(MoveRequest)
_ANSWER = msgspec.json.Decoder(RequestAnswer)


def request_in(annotation: str) -> MoveRequest:
    """Decode a migration request from an annotation.

    Raises UnreadableRequestError with a one-line reason.
    """
    if len(annotation) > LONGEST:
        raise UnreadableRequestError(f"it has more than {LONGEST} characters")
    try:
        return _REQUEST.decode(annotation)
    except UNREADABLE as error:
        raise UnreadableRequestError(" ".join(str(error).split())) from None


def answer_in(annotation: str) -> RequestAnswer | None:
    """Decode the scheduler's response to a migration request from an Event; None for other text."""
    try:
        return _ANSWER.decode(annotation)
    except UNREADABLE:
        return None


_SHARE = re.compile(r"(?:0|1|0?\.[0-9]{1,9}|0\.|1\.0{0,9})", re.ASCII)
_RATE = re.compile(r"[0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9}", re.ASCII)
_SITE_WEIGHT = re.compile(
    r"([A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)=([0-9]{1,6}(?:\.[0-9]{0,9})?)", re.ASCII
)
_MODES: dict[str, Mode] = {mode: mode for mode in MODES}


def wishes_of(
    qos: str | None, migration: str | None, rate: str | None, demand: str | None = None
) -> Wishes | None:
    """Parse a tenant's wishes (QoS target, migration mode, rate, demand by site) from annotations;
    None without any.
    """
    if qos is None and migration is None and rate is None and demand is None:
        return None
    limit = _LONGEST_WISH
    return _read_wishes(
        qos and qos[:limit],
        migration and migration[:limit],
        rate and rate[:limit],
        demand and demand[: _LONGEST_DEMAND + 1],
    )


@lru_cache(maxsize=1024)
def _read_wishes(
    qos: str | None, migration: str | None, rate: str | None, demand: str | None
) -> Wishes:
    ignored = []
    share = None
    if qos is not None and _SHARE.fullmatch(qos.strip()):
        share = float(qos)
    elif qos is not None:
        ignored.append(f"{QOS_ANNOTATION}: {shown(qos)} is not a number between 0 and 1")
    mode = _MODES.get((migration or "").strip())
    if migration is not None and not mode:
        known = f"{', '.join(MODES[:-1])} or {MODES[-1]}"
        ignored.append(f"{MIGRATION_ANNOTATION}: {shown(migration)} is not {known}")
    declared = float(rate) if rate is not None and _RATE.fullmatch(rate.strip()) else None
    if rate is not None and (declared is None or declared > MOST_REQUESTS):
        declared = None
        allowed = f"a number of requests/s between 0 and {MOST_REQUESTS}"
        ignored.append(f"{RATE_ANNOTATION}: {shown(rate)} is not {allowed}")
    sites: tuple[tuple[str, float], ...] = ()
    if demand is not None and not (sites := _read_demand(demand)):
        allowed = f"up to {_MOST_SITES} sites with weights, not all 0, such as berlin=3,munich=1"
        ignored.append(f"{DEMAND_ANNOTATION}: {shown(demand)} is not {allowed}")
    return Wishes(share, mode or "", tuple(ignored), declared, sites)


def _read_demand(text: str) -> tuple[tuple[str, float], ...]:
    """Parse declared demand by site; empty for a malformed value."""
    entries = [entry.strip() for entry in text.split(",")]
    found = [_SITE_WEIGHT.fullmatch(entry) for entry in entries[: _MOST_SITES + 1]]
    sites = {match[1]: float(match[2]) for match in found if match}
    whole = len(text) <= _LONGEST_DEMAND and len(entries) <= _MOST_SITES
    if not whole or len(sites) < len(entries) or not any(sites.values()):
        return ()
    return tuple(sorted(sites.items()))
