"""The mark that a move of ours leaves on a pod it takes from its owner.

A label with the template hash, and an annotation that says what a restarted process must know.
Any user who may change the pod can write both. So a pod counts as detached only if it carries the
whole mark and nothing else disagrees; whether the owner it names knows of it, only a live read
can tell (`live.stranger`).
"""

from collections.abc import Mapping

import msgspec

from kubedsm.kube.client.paths import is_name
from kubedsm.model.model import MIGRATING_LABEL, TEMPLATE_HASH_LABEL

MOVE_ANNOTATION = "kubedsm.io/move"


class MoveMark(msgspec.Struct, frozen=True, rename="camel"):
    """What the annotation says, as JSON."""

    plan: str
    #: the name and the uid of the owner that the pod was taken from
    replica_set: str
    uid: str
    #: the node that the replacement is meant for
    target: str
    #: seconds since the epoch
    since: str

    @property
    def began(self) -> float:
        """When the migration began, in whole seconds as a pod's creation; 0 if unreadable."""
        try:
            return float(int(float(self.since)))
        except (ValueError, OverflowError):
            return 0.0

    def __str__(self) -> str:
        return msgspec.json.encode(self).decode()


_DECODER = msgspec.json.Decoder(MoveMark)


def mark_of(
    labels: Mapping[str, str], annotation: str | None, controller: tuple[str, str, str] | None
) -> MoveMark | None:
    """The pod's mark, if it has a whole one; `controller` is kind, name and uid of its owner.

    For a moment after it was detached, its owner is still the ReplicaSet that the mark names.
    """
    template_hash = labels.get(MIGRATING_LABEL)
    if not template_hash or not annotation or TEMPLATE_HASH_LABEL in labels:
        return None
    try:
        mark = _DECODER.decode(annotation)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    named = is_name(mark.replica_set) and mark.replica_set.endswith(f"-{template_hash}")
    owner = ("ReplicaSet", mark.replica_set, mark.uid)
    return mark if named and mark.uid and controller in (None, owner) else None
