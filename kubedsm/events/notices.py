"""What there is to tell users, as values."""

import re
from typing import ClassVar

import attrs

from kubedsm.kube.wire.decoding import ConfigMap
from kubedsm.model.model import NodeName, Pod, Tier, Uid

_NUMBER = re.compile(r"\d+")


@attrs.frozen(slots=True)
class Scheduled:
    topic: ClassVar[str] = "scheduling"
    pod: Pod
    node: NodeName


@attrs.frozen(slots=True)
class FailedScheduling:
    topic: ClassVar[str] = "scheduling"
    once: ClassVar[bool] = True
    warning: ClassVar[bool] = True
    pod: Pod
    text: str
    reason: str
    times: int = 1


@attrs.frozen(slots=True)
class Note:
    """An Event about a migration, a preemption, or something that is not as it should be."""

    about: Pod | ConfigMap
    reason: str
    text: str
    topic: str = "migrating"
    warning: bool = False
    #: rather counted than said twice in a row
    once: bool = False
    times: int = 1


@attrs.frozen(slots=True)
class Retiered:
    """The node's tier changed, and with it what the pod says of its own."""

    topic: ClassVar[str] = "tier"
    pod: Pod
    tier: Tier


Entry = Scheduled | FailedScheduling | Note | Retiered
#: a pod, and what is said about it
Key = tuple[Uid, str]
TOPICS = ("scheduling", "migrating", "preempting", "packing", "configuring", "collecting", "tier")


def subject_of(entry: Entry) -> Pod | ConfigMap:
    return entry.about if isinstance(entry, Note) else entry.pod


def key_of(entry: Entry) -> Key:
    about = subject_of(entry)
    return Uid((about if isinstance(about, Pod) else about.identity).uid), entry.topic


def gist_of(entry: FailedScheduling | Note) -> tuple[str, str]:
    """The reason, and what is new in the words: not by how many nodes a pod is rejected."""
    if isinstance(entry, Note):
        return entry.reason, entry.text
    return entry.reason, _NUMBER.sub("", entry.text)


def with_older(entry: Entry, older: Entry | None) -> Entry:
    """The entry, counted in with the one whose place it takes if that says the same."""
    if not isinstance(entry, FailedScheduling | Note) or type(older) is not type(entry):
        return entry
    same = gist_of(older) == gist_of(entry)
    return attrs.evolve(entry, times=entry.times + older.times) if same else entry
