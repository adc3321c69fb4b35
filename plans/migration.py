"""Composition of migration plans from steps, for the modes surge (replacement first) and recreate
(eviction first).

surge, make-before-break: start, detach the pod, await and bind the replacement, await readiness and
stabilisation, evict the old pod, await the deletion. If a step after the detachment is lost, the
old pod is restored to the owner.

recreate, the paper's mode: start, evict the pod, await and bind the replacement (possibly created
before the deletion of the old pod), await readiness. Without rollback, and without surplus pods.
"""

import enum
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import attrs
from msgspec.structs import replace

from plans.steps import Plan, Step, StepKind

#: maximum time of the start and the restore step, in multiples of the migration's deadline. The
#: orphan sweep begins another plan for a pod still detached afterwards.
PATIENCE = 10
#: maximum seconds of a restoring plan
RESTORING = 300.0


class MoveMode(enum.StrEnum):
    SURGE = "surge"
    RECREATE = "recreate"


@attrs.frozen(slots=True)
class MoveOrder:
    """Order to migrate one pod to a target node. Times are in seconds."""

    id: str
    #: uid; empty for the second leg of a detour
    pod: str
    target: str
    mode: MoveMode
    #: for each step to be seen done
    deadline: float
    #: predecessors: migrations with capacity to be released before the start
    needs: frozenset[str] = frozenset()
    #: migration whose replacement is migrated again: the first leg of a detour
    second_leg_of: str = ""


def migration_plan(plan_id: str, orders: Iterable[MoveOrder]) -> Plan:
    """Compose the plan of a migration group from the steps of its migrations.

    A migration starts after deletion of the old pods of its predecessors.
    """
    steps: list[Step] = []
    freed: dict[str, int] = {}
    finished: dict[str, int] = {}
    starts: dict[str, int] = {}
    orders = list(orders)
    for order in orders:
        starts[order.id] = len(steps)
        made = list(_compose_steps(order, len(steps)))
        steps += made
        freed[order.id] = next(s.id for s in made if s.kind is StepKind.AWAIT_GONE)
        finished[order.id] = next(s.id for s in made if s.kind is StepKind.AWAIT_READY)
    for order in orders:
        before = {freed[needed] for needed in order.needs}
        if order.second_leg_of:
            before |= {freed[order.second_leg_of], finished[order.second_leg_of]}
        number = starts[order.id]
        steps[number] = replace(steps[number], after=frozenset(before))
    return Plan(plan_id, tuple(steps))


def restore_plan(pod: str) -> Plan:
    """Return the plan that restores a pod left detached by a terminated scheduler process."""
    name = f"restore-{pod}"
    return Plan(name, (Step(0, StepKind.RESTORE, pod, "", RESTORING, move=name),))


class _Row(NamedTuple):
    """Template of a migration step, with the positions of its predecessors."""

    kind: StepKind
    after: tuple[int, ...] = ()
    #: the step is about the replacement
    replacement: bool = False
    #: timeout in multiples of the migration's deadline
    timeout: float = 1.0
    rescues: Iterable[int] = ()


#: The start may wait for the limits of migrations.
_START = _Row(StepKind.START, timeout=PATIENCE)
_SURGE = (
    _START,
    _Row(StepKind.DETACH, (0,)),
    _Row(StepKind.AWAIT_REPLACEMENT, (1,), replacement=True),
    # The replacement may be observed before the pod is observed as detached.
    _Row(StepKind.BIND, (1, 2), replacement=True),
    _Row(StepKind.AWAIT_READY, (3,), replacement=True),
    _Row(StepKind.SETTLE, (4,), replacement=True, timeout=0.0),
    _Row(StepKind.EVICT, (5,)),
    _Row(StepKind.AWAIT_GONE, (6,)),
    _Row(StepKind.RESTORE, (1,), timeout=PATIENCE, rescues=range(2, 7)),
)
_RECREATE = (
    _START,
    _Row(StepKind.EVICT, (0,)),
    _Row(StepKind.AWAIT_REPLACEMENT, (1,), replacement=True),
    _Row(StepKind.BIND, (1, 2), replacement=True),
    _Row(StepKind.AWAIT_READY, (3,), replacement=True),
    _Row(StepKind.AWAIT_GONE, (1,)),
)


def _compose_steps(order: MoveOrder, first: int) -> Iterator[Step]:
    """Yield the steps of one migration, numbered from `first` on."""
    for position, row in enumerate(_SURGE if order.mode is MoveMode.SURGE else _RECREATE):
        yield Step(
            id=first + position,
            kind=row.kind,
            pod="" if row.replacement else order.pod,
            node=order.target,
            timeout=row.timeout * order.deadline,
            after=frozenset(first + each for each in row.after),
            rescues=frozenset(first + each for each in row.rescues),
            move=order.id,
            replacement_of=order.id if row.replacement else order.second_leg_of,
        )
