"""The moves under way: what is told of them and how often, how many, where, and who rests."""

import asyncio

import attrs
import pytest
from msgspec.structs import replace

from kubedsm.config.current import CurrentConfiguration
from kubedsm.config.sections import MigrationSettings
from kubedsm.config.settings import Configuration
from kubedsm.execution.limits import BACK_OFF, LEFT_ALONE, Cooldowns, Underway, is_admissible
from kubedsm.execution.migrations import Migrations
from kubedsm.model.events import PodApplied
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import NodeName, Workload
from kubedsm_lab.replay.virtual_time import VirtualClock
from plans.advance import advance
from plans.events import Begun, CallRefused
from plans.migration import MoveMode, MoveOrder, migration_plan
from plans.steps import StepKind, StepState
from support.handles import handle_of
from support.move_scenes import group_of
from support.pods import made_pod


def running(name):
    return made_pod(name, workload=name, node_name=NodeName("c1"))


def migrations(mirror, ended, **limits):
    settings = attrs.evolve(Configuration().migration, **limits)
    configuration = CurrentConfiguration(Configuration(migration=settings))
    return Migrations(
        handle_of(VirtualClock(), mirror=mirror, configuration=configuration),
        lambda _: None,
        lambda _: None,
        ended.append,
        lambda *_: None,
    )


async def test_a_move_whose_old_pod_is_slow_to_go_counts_in_its_own_namespace_only():
    mirror = ClusterMirror()
    moves = migrations(mirror, [], max_concurrent=1)
    for name, namespace in (("web", "shop"), ("api", "shop"), ("bank", "bank")):
        workload = Workload(namespace, "Deployment", name)
        mirror.apply(PodApplied(attrs.evolve(running(name), workload=workload)))
        order = MoveOrder(f"{name}/m", name, "e1", MoveMode.SURGE, 10.0)
        moves.add(name, group_of([order], mirror))
        moves.queue_start(migration_plan(name, [order]).steps[0])
    [(first, *_)] = moves.admit_starts()
    assert first.plan_id == "web"
    plan = migration_plan("web", [first.order])
    last = {StepKind.AWAIT_GONE, StepKind.RESTORE}
    steps = [s if s.kind in last else replace(s, state=StepState.DONE) for s in plan.steps]
    assert moves.end_step(replace(plan, steps=tuple(steps)), steps[6], 3.0) == 3.0
    await asyncio.sleep(2.9)
    assert list(moves.admit_starts()) == []
    await asyncio.sleep(0.1)
    assert [each.plan_id for each, *_ in moves.admit_starts()] == ["bank"]


def begun_group(ended):
    """Return the migrations and the plan of a group of two, web and api, that has begun."""
    mirror = ClusterMirror()
    for name in ("web", "api"):
        mirror.apply(PodApplied(running(name)))
    orders = [MoveOrder(f"p/{name}", name, "e1", MoveMode.SURGE, 10.0) for name in ("web", "api")]
    moves = migrations(mirror, ended)
    moves.add("p", group_of(orders, mirror))
    plan, _ = advance(migration_plan("p", orders), Begun(), 0.0)
    return moves, plan


async def test_the_end_of_a_move_whose_steps_end_together_is_told_once():
    ended = []
    moves, plan = begun_group(ended)
    plan, effects = advance(plan, CallRefused(0, "its owner is rolling out"), 0.0)
    assert {step.state for step in effects} == {StepState.FAILED, StepState.CANCELLED}
    for step in effects:
        moves.end_step(plan, step, 3.0)
    assert [outcome.id for outcome in ended] == ["p/web"]


WEB, API = (Workload("shop", "Deployment", name) for name in ("web", "api"))
OTHER = Workload("bank", "Deployment", "api")
WIDE = MigrationSettings(max_concurrent=9, max_per_node=9, max_per_workload=9)


def underway(workload, source, target, *, since=0.0, breaks_first=False):
    return Underway(workload, source, target, since, breaks_first)


ONE = underway(WEB, "c1", "e1")


def admits(migration, *running, **narrow):
    return is_admissible(migration, running, attrs.evolve(WIDE, **narrow))


def cooldowns(cooldown=60.0):
    migration = MigrationSettings(cooldown=cooldown)
    return Cooldowns(CurrentConfiguration(Configuration(migration=migration)))


@pytest.mark.parametrize(
    "other",
    [
        underway(API, "c1", "e2"),
        underway(API, "c2", "e1"),
        underway(API, "e1", "c2"),
        underway(API, "e2", "c1"),
    ],
    ids=["same source", "same target", "its target is the source", "its source is the target"],
)
def test_a_nodes_limit_counts_moves_from_it_and_to_it(other):
    assert not admits(other, ONE, max_per_node=1)
    assert admits(underway(API, "c2", "e2"), ONE, max_per_node=1)
    assert admits(other, max_per_node=1)


@pytest.mark.parametrize(
    ("narrow", "other"),
    [({"max_concurrent": 1}, API), ({"max_per_workload": 1}, WEB)],
    ids=["in all", "of a workload"],
)
def test_a_move_too_many_waits_until_another_is_over(narrow, other):
    assert not admits(underway(other, "c2", "e2"), ONE, **narrow)
    assert admits(underway(other, "c2", "e2"), **narrow)


@pytest.mark.parametrize("breaks", [(True, False), (False, True), (True, True)])
def test_a_move_that_breaks_first_goes_alone_in_its_workload(breaks):
    one = attrs.evolve(ONE, breaks_first=breaks[0])
    assert not admits(underway(WEB, "c2", "e2", breaks_first=breaks[1]), one)
    assert admits(underway(API, "c2", "e2", breaks_first=True), one)


def test_moves_that_have_become_slow_count_in_their_own_namespace_only():
    slow, narrow = (ONE, ONE), {"max_concurrent": 2, "deadline": 60.0}
    assert not admits(underway(OTHER, "c2", "e2", since=59.0), *slow, **narrow)
    assert admits(underway(OTHER, "c2", "e2", since=61.0), *slow, **narrow)
    assert not admits(underway(API, "c2", "e2", since=61.0), *slow, **narrow)


def test_workloads_that_rested_long_ago_are_forgotten():
    made = cooldowns(1.0)
    for number in range(1000):
        made.begin(Workload("shop", "Deployment", f"w{number}"), now=10.0 * number, failed=True)
    assert len(made) < 100


def test_a_workload_that_fails_again_and_again_rests_longer_each_time():
    made = cooldowns()
    for failures in range(3):
        now = 200.0 * failures
        made.begin(WEB, now, failed=True)
        assert WEB in made.list_resting(now + 59.9 + BACK_OFF.delay_after(failures))
        assert WEB not in made.list_resting(now + 60.0 + BACK_OFF.delay_after(failures))
    made.begin(WEB, 600.0, failed=False)
    made.begin(WEB, 700.0, failed=True)
    assert WEB not in made.list_resting(760.0 + BACK_OFF.first)


def test_pods_of_a_workload_that_fail_at_once_count_as_one_attempt():
    made = cooldowns()
    for now in (100.0, 101.0, 102.0):
        made.begin(WEB, now, failed=True)
    until = 102.0 + 60.0 + BACK_OFF.first
    assert WEB in made.list_resting(until - 0.1)
    assert WEB not in made.list_resting(until)
    made.begin(WEB, until, failed=True)
    assert WEB in made.list_resting(until + 59.9 + BACK_OFF.delay_after(1))


def test_late_replacements_in_a_row_leave_a_workload_alone():
    made = cooldowns(0.0)

    def fail_late(now):
        made.begin(WEB, now, failed=True)
        return made.note_late(WEB, "h1", now)

    assert not fail_late(0.0)
    made.begin(WEB, 20.0, failed=False)
    assert not fail_late(40.0)
    # A failure for another reason is between them.
    made.begin(WEB, 60.0, failed=True)
    assert fail_late(100.0)
    assert set(made.list_left_alone(100.0 + LEFT_ALONE - 0.1)) == {WEB}
    assert set(made.list_left_alone(100.0 + LEFT_ALONE)) == set()
