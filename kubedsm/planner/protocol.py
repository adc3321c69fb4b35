"""Protocol of the planner process: length-prefixed pickles, and replication of the mirror.

Both processes run the same program and start together: the format is unversioned. The scheduler
sends all modifying calls of its mirror, in order, and the planner repeats the calls on a replica.
"""

import copyreg
import io
import pickle
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, wraps
from operator import attrgetter
from typing import Any, BinaryIO, Concatenate, NamedTuple, ParamSpec, TypeVar

import attrs

from kubedsm.model.events import KindKnown, NodeApplied, PodApplied, SurroundingApplied
from kubedsm.model.measured import Measured
from kubedsm.model.mirror import ClusterMirror, ReplacementClaim, Reservation
from kubedsm.model.model import Pod, PodClass, Uid, Workload
from kubedsm.planner.requests import Request

P = ParamSpec("P")
R = TypeVar("R")


# Messages.


class Call(NamedTuple):
    """Recorded call of a cluster mirror method, replayed on the planner process's replica."""

    method: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def repeat_on(self, mirror: "ReplicatedMirror") -> None:
        getattr(mirror, self.method)(*self.args, **self.kwargs)


@attrs.frozen(slots=True)
class Configured:
    """Message to the planner process: a new configuration document."""

    document: Any


@attrs.frozen(slots=True)
class NumberedRequest:
    number: int
    request: Request[Any]
    #: pods of plans under way
    followed: frozenset[Uid]
    #: change counter of the scheduler's mirror, for comparison with the replica
    changes: int
    #: a preceding announcement interrupted the present request
    announced: bool


@attrs.frozen(slots=True)
class NumberedResponse:
    number: int
    #: pickled, to be read only if the client still waits
    response: bytes = b""
    #: traceback of a bug, instead of a response
    error: str = ""


#: messages of the scheduler
Message = Call | Configured | NumberedRequest
#: frame without a message: announcement of a request of higher precedence
ANNOUNCED = b"!"


# Replication of the mirror.


def _publish_calls(
    method: Callable[Concatenate[ClusterMirror, P], R],
) -> Callable[Concatenate["ReplicatedMirror", P], R]:
    """Wrap a mirror method to publish each successful outermost call for replication to the planner
    process.
    """

    @wraps(method)
    def publishing(mirror: "ReplicatedMirror", /, *args: P.args, **kwargs: P.kwargs) -> R:
        publish, mirror.publish = mirror.publish, None
        try:
            result = method(mirror, *args, **kwargs)
        finally:
            mirror.publish = publish
        if publish is not None:
            publish(Call(method.__name__, args, kwargs))
        return result

    return publishing


class ReplicatedMirror(ClusterMirror):
    """Cluster mirror that publishes all modifying calls, so the planner process can replicate the
    mirror.
    """

    publish: Callable[[Call], None] | None = None

    apply = _publish_calls(ClusterMirror.apply)
    reserve = _publish_calls(ClusterMirror.reserve)
    release = _publish_calls(ClusterMirror.release)
    hand_over = _publish_calls(ClusterMirror.hand_over)
    nominate = _publish_calls(ClusterMirror.nominate)
    withdraw = _publish_calls(ClusterMirror.withdraw)
    claim = _publish_calls(ClusterMirror.claim)
    end_claim = _publish_calls(ClusterMirror.end_claim)

    def replay(self) -> Iterator[Call]:
        """Return the cluster mirror's method calls that reproduce its present state on an empty
        mirror.
        """
        nodes, pods, surroundings = self._nodes, self._pods, self.surroundings
        state = (dict(self._reservations), dict(self._claims), dict(self.claimed))
        last = Call("take_over", (*state, self.measured, self.changes), {})

        def calls() -> Iterator[Call]:
            for kind, things in surroundings.list_known():
                yield _apply(KindKnown(kind))
                yield from (_apply(SurroundingApplied(thing)) for thing in things)
            yield from (_apply(NodeApplied(node)) for node in nodes.values())
            yield from (_apply(PodApplied(pod)) for pod in pods.values())
            yield last

        return calls()

    def take_over(
        self,
        reservations: Mapping[str, Reservation],
        claims: Mapping[str, ReplacementClaim],
        claimed: Mapping[Uid, str],
        measured: Measured,
        changes: int,
    ) -> None:
        """Adopt the reservations, replacement claims and measurements of another cluster mirror;
        its observed objects are already replicated.
        """
        for reservation in reservations.values():
            self._add_reservation(reservation)
        self._claims, self.claimed, self.changes = dict(claims), dict(claimed), changes
        self.measured = measured


def _apply(event: Any) -> Call:
    return Call("apply", (event,), {})


# Frames.

LENGTH = struct.Struct("!Q")
#: pod classes and workloads kept, each shared by many pods; as many as the JSON decoding keeps
_SHARED = 4096
_class_of = attrgetter("requests", "rules", "priority", "preempts")


def pack_frame(data: bytes) -> bytes:
    return LENGTH.pack(len(data)) + data


def read_frame(stream: BinaryIO) -> bytes:
    """Return the data of the next frame; empty at the end of the stream, even inside a frame."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return b""
    (length,) = LENGTH.unpack(head)
    frame = stream.read(length)
    return frame if len(frame) == length else b""


def dump_message(value: object) -> bytes:
    """Pickle a message; pods of different messages share their classes and workloads."""
    return _dump_with(_Pickler, value)


def dump_response(value: object) -> bytes:
    """Pickle a response of the planner process, with pods represented by uid."""
    return _dump_with(_ResponsePickler, value)


def load_message(data: bytes) -> Any:
    return pickle.loads(data)  # noqa: S301 - of the parent process, or of a child process


def load_response(data: bytes, pod: Callable[[Uid], Pod]) -> Any:
    return _ResponseUnpickler(io.BytesIO(data), pod).load()


def _dump_with(pickler: type[pickle.Pickler], value: object) -> bytes:
    buffer = io.BytesIO()
    pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


@lru_cache(_SHARED)
def _make_shared(make: Callable[..., object], *fields: object) -> object:
    return make(*fields)


class _Pickler(pickle.Pickler):
    dispatch_table = copyreg.dispatch_table | {
        PodClass: lambda it: (_make_shared, (PodClass, *_class_of(it))),
        Workload: lambda it: (_make_shared, (Workload, *it)),
    }


class _ResponsePickler(pickle.Pickler):
    def persistent_id(self, obj: object) -> Uid | None:
        return obj.uid if isinstance(obj, Pod) else None


class _ResponseUnpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, pod: Callable[[Uid], Pod]) -> None:
        super().__init__(stream)
        self._pod = pod

    def persistent_load(self, pid: Uid) -> Pod:
        return self._pod(pid)
