"""Migrations as compositions of steps, in both modes, and groups of migrations as one plan.

surge, make-before-break: start, detach the pod, await the replacement, bind it, await it Ready, let
it settle, evict the old pod, await it gone. If a step after the detach is lost, the old pod is
restored to its owner.

recreate, the paper's mode: start, evict the pod, await the replacement (which may exist before the
old pod is gone), bind it, await it Ready. There is no rollback, and no surplus pod meanwhile.
"""

import enum
from collections.abc import Iterable

import attrs

from plans.steps import Plan, Step, StepKind

#: maximum time of the start and the restore step, in multiples of the migration's deadline. The
#: orphan sweep begins a new plan for a pod that is still detached then.
PATIENCE = 10
#: maximum seconds of such a plan
RESTORING = 300.0


class MoveMode(enum.StrEnum):
    SURGE = "surge"
    RECREATE = "recreate"


@attrs.frozen(slots=True)
class MoveOrder:
    """Migration of one pod to one node. Times are in seconds."""

    id: str
    #: uid; empty for the second leg of a detour
    pod: str
    target: str
    mode: MoveMode
    #: for each step to be seen done
    deadline: float
    #: migrations that must have freed their capacity before this one starts
    needs: frozenset[str] = frozenset()
    #: migration whose replacement is migrated again: the first leg of a detour
    second_leg_of: str = ""


def migration_plan(plan_id: str, orders: Iterable[MoveOrder]) -> Plan:
    """Compose the steps; a migration starts once the old pods of those that it needs are gone."""
    steps: list[Step] = []
    freed: dict[str, int] = {}
    finished: dict[str, int] = {}
    starts: dict[str, int] = {}
    orders = list(orders)
    for order in orders:
        compose = _surge if order.mode is MoveMode.SURGE else _recreate
        first = len(steps)
        made = compose(order, first)
        steps += made
        starts[order.id] = first
        freed[order.id] = next(s.id for s in made if s.kind is StepKind.AWAIT_GONE)
        finished[order.id] = next(s.id for s in made if s.kind is StepKind.AWAIT_READY)
    for order in orders:
        before = {freed[needed] for needed in order.needs}
        if order.second_leg_of:
            before |= {freed[order.second_leg_of], finished[order.second_leg_of]}
        number = starts[order.id]
        steps[number] = attrs.evolve(steps[number], after=frozenset(before))
    return Plan(plan_id, tuple(steps))


def restore_plan(pod: str) -> Plan:
    """Return a plan that restores a detached pod, for one whose process has ended."""
    name = f"restore-{pod}"
    return Plan(name, (Step(0, StepKind.RESTORE, pod, "", RESTORING, move=name),))


def _step(
    order: MoveOrder,
    number: int,
    kind: StepKind,
    timeout: float,
    *after: int,
    replacement: bool = False,
    rescues: Iterable[int] = (),
) -> Step:
    return Step(
        id=number,
        kind=kind,
        pod="" if replacement else order.pod,
        node=order.target,
        timeout=timeout,
        after=frozenset(after),
        rescues=frozenset(rescues),
        move=order.id,
        replacement_of=order.id if replacement else order.second_leg_of,
    )


def _surge(order: MoveOrder, n: int) -> list[Step]:
    patience = order.deadline
    return [
        # The start may wait for the limits of migrations.
        _step(order, n, StepKind.START, PATIENCE * patience),
        _step(order, n + 1, StepKind.DETACH, patience, n),
        _step(order, n + 2, StepKind.AWAIT_REPLACEMENT, patience, n + 1, replacement=True),
        # The replacement may be observed before the pod is observed as detached.
        _step(order, n + 3, StepKind.BIND, patience, n + 1, n + 2, replacement=True),
        _step(order, n + 4, StepKind.AWAIT_READY, patience, n + 3, replacement=True),
        _step(order, n + 5, StepKind.SETTLE, 0.0, n + 4, replacement=True),
        _step(order, n + 6, StepKind.EVICT, patience, n + 5),
        _step(order, n + 7, StepKind.AWAIT_GONE, patience, n + 6),
        _step(
            order,
            n + 8,
            StepKind.RESTORE,
            PATIENCE * patience,
            n + 1,
            rescues=range(n + 2, n + 7),
        ),
    ]


def _recreate(order: MoveOrder, n: int) -> list[Step]:
    patience = order.deadline
    return [
        _step(order, n, StepKind.START, PATIENCE * patience),
        _step(order, n + 1, StepKind.EVICT, patience, n),
        _step(
            order,
            n + 2,
            StepKind.AWAIT_REPLACEMENT,
            patience,
            n + 1,
            replacement=True,
        ),
        _step(order, n + 3, StepKind.BIND, patience, n + 1, n + 2, replacement=True),
        _step(order, n + 4, StepKind.AWAIT_READY, patience, n + 3, replacement=True),
        _step(order, n + 5, StepKind.AWAIT_GONE, patience, n + 1),
    ]
