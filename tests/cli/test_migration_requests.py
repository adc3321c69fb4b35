"""Requests to a scheduler, reading its cluster, and packing: in virtual time."""

import asyncio
import os
import random
import re
import signal

import attrs
import click
import pytest
import yaml

from kubedsm.cli.cluster import read_snapshot
from kubedsm.cli.console import Stop, interruptible, until_interrupted
from kubedsm.cli.execution import carry_out
from kubedsm.cli.migration_requests import (
    NOT_ALL,
    PAUSED,
    STALE,
    TAKEN_WITHIN,
    UNLED_WITHIN,
    Requests,
)
from kubedsm.cli.packing_advice import advise
from kubedsm.config.settings import Configuration, load
from kubedsm.explain.migration_outcome import Outcome
from kubedsm.kube.calls import leases
from kubedsm.kube.calls.explained_cluster import ExplainedCluster
from kubedsm.kube.client.port import Forbidden, ObjectName, Request
from kubedsm.kube.wire.annotations import RequestedMove
from kubedsm.rebalancing.migration_requests import list_requested_moves
from kubedsm_lab.emulator.api.resources import (
    CONFIGMAPS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
)
from kubedsm_lab.emulator.front import EmulatedFront
from support.answering_cluster import AnsweringCluster, refusal
from support.full_clusters import half_full, in_pieces, large, placed
from support.manifests import ROOT
from support.move_scenes import (
    LARGE_CLOUD,
    MERGE,
    ReadyPods,
    is_detached,
    open_edge,
    settle_on_cloud,
)
from support.proposals import APPROVED, OWN, PROPOSING, config_map, proposing
from support.rights import ADMIN_TOKEN, install, token_of
from support.worlds import emulated


def beside(world):
    """The scheduler, as another process sees it."""
    front = EmulatedFront(world.cluster.routes, world.clock, latency=0.01)
    return Requests(front, ObjectName(OWN, OWN), world.clock)


def standing(world):
    """What is asked for on either ConfigMap."""
    there = [world.api.get(CONFIGMAPS, OWN, name)["metadata"] for name in (OWN, APPROVED)]
    return [asked for each in there for asked in each.get("annotations", {}).values()]


async def test_what_is_approved_is_done_and_said_and_what_does_not_hold_any_more_is_not(capsys):
    async with proposing() as scene:
        suggestion = await scene.until_proposed()
        assert await beside(scene.world).send("0badf00d") == STALE
        told = "is unknown or outdated; the current proposal is "
        assert told in capsys.readouterr().err
        assert await beside(scene.world).send(suggestion.id) == 0
        assert scene.world.placed("web") == {"e1": 2}
        assert not standing(scene.world)
    said = capsys.readouterr().err
    assert said.count(" to e1 completed\n") == 2


async def test_a_move_that_is_taken_back_is_told_and_has_its_exit_code(capsys):
    async with proposing(pods=1) as scene:
        moves = list_requested_moves(await scene.until_proposed())
        bad = {"metadata": {"annotations": {"emulator.kubedsm.io/never-ready": "true"}}}

        def spoil(change):
            if change.resource is PODS and change.type == "ADDED":
                name = change.object["metadata"]["name"]
                asyncio.get_running_loop().call_soon(lambda: scene.world.patch(PODS, name, bad))

        scene.world.api.store.subscribe(spoil)
        assert await beside(scene.world).send("", moves) == NOT_ALL
    assert " to e1 rolled back: " in capsys.readouterr().err


async def test_beside_a_paused_scheduler_nobody_waits_and_it_has_the_last_word(capsys):
    async with proposing() as scene:
        scheduler, clock = beside(scene.world), scene.world.clock
        assert not await scheduler.is_paused()
        scene.paused("true")
        before = clock.monotonic()
        assert await scheduler.is_paused()
        assert clock.monotonic() - before < 1
        assert "migrations are paused: ConfigMap kubedsm/kubedsm" in capsys.readouterr().err
        assert await scheduler.is_paused(10.0)
        assert 10 <= clock.monotonic() - before < 12
        asyncio.get_running_loop().call_later(5, scene.paused, "false")
        assert not await scheduler.is_paused(60.0)
    async with proposing() as scene:
        suggestion = await scene.until_proposed()
        scene.paused("true")
        assert await beside(scene.world).send(suggestion.id) == PAUSED


async def test_requests_that_nobody_takes_or_that_say_too_much_are_withdrawn(capsys):
    async with emulated(LARGE_CLOUD) as world:
        config_map(world)
        for holder, within in ((None, UNLED_WITHIN), ("gone", TAKEN_WITHIN)):
            if holder:
                term = leases.term_of(holder, 15.0, 0, 0)
                await leases.write(beside(world).cluster, ObjectName(), None, term)
            began = world.clock.monotonic()
            why = f"no scheduler accepted the request within {within:g} s"
            with pytest.raises(click.ClickException, match=why):
                await beside(world).send("0badf00d")
            assert world.clock.monotonic() - began < within + 5
            told = "no scheduler leads by Lease kubedsm/kubedsm" in capsys.readouterr().err
            assert told is (holder is None)
            assert not standing(world)
    many = [RequestedMove("default/web", "u" * 36, "c1", "e1") for _ in range(2000)]
    async with emulated(LARGE_CLOUD) as world:
        config_map(world)
        with pytest.raises(click.ClickException, match="2000 migrations are too many"):
            await beside(world).send("", tuple(many))
        assert not standing(world)


async def test_a_request_that_is_being_dealt_with_is_left_where_it_is():
    async with emulated(LARGE_CLOUD) as world, asyncio.TaskGroup() as tasks:
        config_map(world)
        first = tasks.create_task(beside(world).send("0badf00d"))
        await asyncio.sleep(5)
        there = standing(world)
        assert there
        with pytest.raises(click.ClickException, match=r"request \w+, of 5 s ago, is in progress"):
            await beside(world).send("0badf00d")
        assert standing(world) == there
        first.cancel()
        await asyncio.wait([first])
        assert not standing(world)


APPROVER = ("kubedsm", "approver")
ROLE = yaml.safe_load(
    re.search(
        r"```yaml\n(apiVersion.*?)```",
        (ROOT / "docs" / "how-to" / "pause-and-approve.md").read_text(),
        re.DOTALL,
    )[1]
)


def let_approve(world):
    """Bind the Role of the docs to an account, and return a `Cluster` with its token."""
    namespace, name = APPROVER
    subject = {"kind": "ServiceAccount", "namespace": namespace, "name": name}
    reference = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "Role",
        "name": "kubedsm-approver",
    }
    binding = {"metadata": {"name": "approvers"}, "roleRef": reference, "subjects": [subject]}
    world.api.create(SERVICE_ACCOUNTS, {"metadata": {"name": name}}, namespace=namespace)
    world.api.create(ROLES, ROLE, namespace=namespace)
    world.api.create(ROLE_BINDINGS, binding, namespace=namespace)
    token = token_of(world.cluster, *APPROVER)
    return EmulatedFront(world.cluster.routes, world.clock, latency=0.01, token=token)


async def test_who_has_the_right_to_approve_can_approve_and_do_nothing_else():
    async with emulated(LARGE_CLOUD, configuration=PROPOSING, admin_token=ADMIN_TOKEN) as world:
        world.token = install(world.cluster)
        for name in (OWN, APPROVED):
            world.api.create(CONFIGMAPS, {"metadata": {"name": name}}, namespace=OWN)
        async with world.scheduler():
            await settle_on_cloud(world, "web", 1)
            open_edge(world)
            await world.until(lambda: world.runtime.migrator.proposed, 20)
            proposed = world.runtime.migrator.proposed
            approver = Requests(let_approve(world), ObjectName(OWN, OWN), world.clock)
            with pytest.raises(Forbidden):
                await approver.send("", list_requested_moves(proposed))
            found = await approver.cluster.request(
                Request("GET", f"/api/v1/namespaces/{OWN}/configmaps/{OWN}"), timeout=5
            )
            assert found.status == 200
            for body in ({"data": {"paused": "true"}}, {"metadata": {"annotations": {"a": "b"}}}):
                path = f"/api/v1/namespaces/{OWN}/configmaps/{OWN}"
                patch = Request("PATCH", path, {}, body, MERGE)
                assert (await approver.cluster.request(patch, timeout=5)).status == 403
            assert not world.witness.of("detach")
            assert await approver.send(proposed.id) == 0
            assert world.placed("web") == {"e1": 1}


async def read(plural, answer):
    """Read a cluster without objects, whose API server answers so for one kind."""
    empty = {"metadata": {"resourceVersion": "5"}, "items": []}
    server = AnsweringCluster(lambda asked: answer if asked.path.endswith(f"/{plural}") else empty)
    cluster = ExplainedCluster(server, "https://10.0.0.1")
    return await read_snapshot(cluster, Configuration())


async def test_what_need_not_be_seen_is_done_without_and_that_is_said(capsys):
    snapshot = await read("storageclasses", refusal(403, 'User "u" cannot list'))
    assert not snapshot.nodes
    said = capsys.readouterr().err
    assert said.startswith("kubedsm: decided without knowing them: no right to list storageclasses")
    assert len(said.splitlines()) == 1


OFF = load("{suggester: {mode: off}, migration: {drainDelay: 1s}}", "test")


async def test_the_room_is_made_though_a_scheduler_would_only_be_told_to_say_so():
    async with in_pieces(configuration=OFF) as world:
        async with world.scheduler():
            await half_full(world)
        ready = ReadyPods(world, "web").watch()
        large(world)
        front, rng = EmulatedFront(world.cluster.routes, world.clock), random.Random(0)
        advice = advise(await read_snapshot(front, OFF), OFF)
        assert len(advice.packed.moves) == 1
        # Whatever it costs: who asks for it has seen that.
        dear = attrs.evolve(OFF, migration=attrs.evolve(OFF.migration, price=3600.0))
        [ended] = await carry_out(front, dear, advice.carry_out, world.clock, rng)
        assert ended.outcome is Outcome.COMPLETED
        assert placed(world) == 1
        assert sorted(world.placed("web").values()) == [2]
        assert ready.lowest == 2


async def test_an_interrupted_execution_ends_the_migrations_in_progress(capsys):
    async with in_pieces(configuration=OFF) as world:
        async with world.scheduler():
            await half_full(world)
        large(world)
        front, rng, stop = (
            EmulatedFront(world.cluster.routes, world.clock),
            random.Random(0),
            Stop(),
        )
        advice = advise(await read_snapshot(front, OFF), OFF)
        async with asyncio.TaskGroup() as tasks:
            executing = tasks.create_task(
                carry_out(front, OFF, advice.carry_out, world.clock, rng, stop)
            )
            await world.until(lambda: any(map(is_detached, world.pods())), 20)
            assert stop.heeded
            stop.asked.set()
        [ended] = executing.result()
        assert ended.outcome in (Outcome.COMPLETED, Outcome.ROLLED_BACK)
        assert not any(map(is_detached, world.pods()))
        assert "kubedsm: interrupted: migrations finish or are" in capsys.readouterr().err


def test_an_interrupt_ends_a_long_computation_at_once():
    ended = []

    async def plan():
        before = signal.getsignal(signal.SIGINT)
        try:
            with interruptible():
                os.kill(os.getpid(), signal.SIGINT)
                ended.append("only after the computation")
        finally:
            assert signal.getsignal(signal.SIGINT) is before

    with pytest.raises(KeyboardInterrupt):
        until_interrupted(plan())
    assert not ended
