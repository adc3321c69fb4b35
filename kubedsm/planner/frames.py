"""How values go between the scheduler and its worker process: pickled, with their length before.

Both ends are one program, started a moment apart, so there is no format to be kept stable. Pods
are what there is much of: they are written as what they are made of, and what many have in common
is made once and then shared, as where they are read from JSON. In answers a pod is its uid.
"""

import copyreg
import io
import pickle
import struct
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any, BinaryIO

import attrs

from kubedsm.model.events import PodApplied
from kubedsm.model.model import Pod, PodClass, Uid, Workload

LENGTH = struct.Struct("!Q")
#: values that many pods have in common; as many as `cluster.wire` remembers
_SHARED = 4096
_FIELDS = tuple(field.name for field in attrs.fields(Pod) if field.init)
_fields_of = attrgetter(*_FIELDS)
_class_of = attrgetter("requests", "rules", "priority", "preempts")
_LABELS = _FIELDS.index("labels")
#: positions of texts that many pods have in common
_TEXTS = tuple(_FIELDS.index(f) for f in ("namespace", "scheduler_name", "node_name", "phase"))


def pickled(value: object) -> bytes:
    """What is said to either."""
    return _pickled(_Pickler, value)


def pickled_answer(value: object) -> bytes:
    """The same with a pod as its uid."""
    return _pickled(_AnswerPickler, value)


def _pickled(pickler: type[pickle.Pickler], value: object) -> bytes:
    buffer = io.BytesIO()
    pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def unpickled(data: bytes) -> Any:
    return pickle.loads(data)  # noqa: S301 - of the process that started this one, or that it started


def unpickled_answer(data: bytes, pod: Callable[[Uid], Pod]) -> Any:
    """The answer, with the pods of these uids."""
    return _AnswerUnpickler(io.BytesIO(data), pod).load()


def framed(data: bytes) -> bytes:
    return LENGTH.pack(len(data)) + data


def read(stream: BinaryIO) -> bytes:
    """The next frame, without its length; empty at the end of the stream, be that halfway."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return b""
    (length,) = LENGTH.unpack(head)
    frame = stream.read(length)
    return frame if len(frame) == length else b""


@lru_cache(_SHARED)
def _shared(kind: Callable[..., object], *fields: object) -> object:
    return kind(*fields)


def _pod(*fields: Any) -> Pod:
    made = list(fields)
    made[_LABELS] = _shared(_labels, *made[_LABELS])
    for position in _TEXTS:
        if made[position] is not None:
            made[position] = sys.intern(made[position])
    return Pod(*made)


def _labels(*pairs: tuple[str, str]) -> Mapping[str, str]:
    return dict(pairs)


def _of_pod(pod: Pod) -> tuple[Any, ...]:
    fields = list(_fields_of(pod))
    fields[_LABELS] = tuple(pod.labels.items())
    return _pod, tuple(fields)


class _Pickler(pickle.Pickler):
    dispatch_table = copyreg.dispatch_table | {
        Pod: _of_pod,
        PodClass: lambda it: (_shared, (PodClass, *_class_of(it))),
        PodApplied: lambda it: (PodApplied, (it.pod,)),
        Workload: lambda it: (_shared, (Workload, *it)),
    }


class _AnswerPickler(pickle.Pickler):
    def persistent_id(self, obj: object) -> Uid | None:
        return obj.uid if isinstance(obj, Pod) else None


class _AnswerUnpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, pod: Callable[[Uid], Pod]) -> None:
        super().__init__(stream)
        self._pod = pod

    def persistent_load(self, pid: Uid) -> Pod:
        return self._pod(pid)
