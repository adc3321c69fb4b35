"""Whether a move may begin, and what is to become of a detached pod: judged on live objects."""

import enum

from kubedsm.execution.tier_labels import TIER_LABEL
from kubedsm.kube.calls.reads import (
    LiveOwner,
    LivePod,
)
from kubedsm.model.model import MIGRATING_LABEL
from plans.migration import MoveMode


def live_reason_to_stay(
    live: LivePod,
    owner: LiveOwner,
    mode: MoveMode,
    services_by_template: list[str],
    budgets: list[tuple[str, int]],
) -> str:
    """Why the pod must not be moved now; empty if it may be.

    In surge mode the eviction comes when the replacement is Ready, so a budget that allows
    nothing now will allow it then.
    """
    if live.pod.pinned:
        return live.pod.pinned
    if reason := _owners_reason(owner):
        return reason
    if len(budgets) > 1:
        names = ", ".join(name for name, _ in budgets)
        return f"several budgets cover it, so that it cannot be evicted: {names}"
    if mode is MoveMode.SURGE:
        return _reason_in_surge(live, services_by_template)
    if budgets and budgets[0][1] < 1:
        return f"budget {budgets[0][0]} allows no disruption"
    if owner.ready_others < 1:
        return "it is the last Ready pod of its owner"
    return ""


def _owners_reason(owner: LiveOwner) -> str:
    if owner.gone:
        return "its owner is gone"
    if owner.rolling_out:
        return "its owner is rolling out"
    if owner.shrinking:
        return "its owner is about to delete pods: it has more than it wants"
    if owner.failed_create:
        return f"its owner cannot create pods: {owner.failed_create}"
    if label := _label_of_ours(owner):
        return f"its owner goes by the label {label}, which is ours to set"
    return ""


def _label_of_ours(owner: LiveOwner) -> str:
    """A label of ours that would make the owner lose the pod, or come with a new one."""
    for label in (MIGRATING_LABEL, TIER_LABEL):
        if label in owner.selected_labels:
            return label
    return MIGRATING_LABEL if MIGRATING_LABEL in owner.template_labels else ""


def _reason_in_surge(live: LivePod, services_by_template: list[str]) -> str:
    if live.owner_kind != "ReplicaSet" or not live.template_hash:
        return "only the pods of a Deployment's ReplicaSet can be detached"
    if services_by_template:
        return f"Service {services_by_template[0]} selects by template hash, and would lose it"
    return ""


class Fate(enum.Enum):
    """What is right for a pod that is detached and has no move any more."""

    EVICT = "evict"
    #: handed to the garbage collector, which asks no budget
    COLLECT = "collect"
    REATTACH = "reattach"
    WAIT = "wait"


def fate(owner: LiveOwner, *, eviction_refused: bool) -> Fate:
    """Evict it if its owner has enough Ready pods without it, or is gone; else give it back.

    If the owner is gone and a budget refuses the eviction, the garbage collector gets the pod.
    Without the migration, garbage collection would have deleted it together with its owner.

    A ReplicaSet that wants no pods any more would delete it at once: then it has to wait until
    the new ones are Ready.
    """
    if owner.gone:
        return Fate.COLLECT if eviction_refused else Fate.EVICT
    enough = owner.ready_others >= owner.wanted
    if enough and not eviction_refused:
        return Fate.EVICT
    return Fate.REATTACH if owner.owner_wants > 0 or enough else Fate.WAIT
