"""The moves under way: what is told of them, and how often."""

import asyncio

import attrs

from kubedsm.config.current import CurrentConfiguration
from kubedsm.config.settings import Configuration
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
    steps = [s if s.kind in last else s._replace(state=StepState.DONE) for s in plan.steps]
    assert moves.end_step(attrs.evolve(plan, steps=tuple(steps)), steps[6], 3.0) == 3.0
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
