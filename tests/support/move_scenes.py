"""Scenes of migration tests: clusters, events at a chosen moment, and final checks."""

import asyncio
from contextlib import asynccontextmanager

import attrs

from kubedsm.config.settings import load
from kubedsm.events.event_recorder import BURST_GAP
from kubedsm.execution.migrations import Group
from kubedsm.explain.migration_outcome import MoveOutcome, Outcome, plan_outcome
from kubedsm.kube.client.port import OutcomeUnknown
from kubedsm.model.model import Uid
from kubedsm.optimizer.moving.migration_graph import Order
from kubedsm.optimizer.moving.suggestion import Move
from kubedsm.rebalancing.suggester import order_of
from kubedsm_lab.emulator.api.object_state import is_ready, is_terminating
from kubedsm_lab.emulator.api.resources import NODES, PODS
from kubedsm_lab.emulator.front import Faults, RequestFault
from kubedsm_lab.emulator.paper import node
from support.faults import Failing
from support.worlds import emulated

MERGE = "application/merge-patch+json"
#: moves are free: whether they pay is another matter
CONFIGURATION = load(
    """
suggester: {period: 1s}
migration: {price: 0s, cooldown: 1s, drainDelay: 1s, deadline: 10s}
""",
    "test",
)
LARGE_CLOUD = node("c1", "cloud", "20", "40Gi")
SMALL_EDGE = node("e1", "edge", "2", "8Gi")
ONE_PLACE = node("e1", "edge", "1", "8Gi")
#: moves are given by hand
BY_HAND = load("suggester: {mode: 'off'}\nmigration: {drainDelay: 1s}", "test")


class ReadyPods:
    """Recorder of an app's lowest number of Ready pods, which no migration may reduce."""

    def __init__(self, world, app):
        self.lowest = None
        self._world, self._app = world, app

    def count(self):
        pods = self._world.pods(self._app)
        return sum(is_ready(pod) and not is_terminating(pod) for pod in pods)

    def watch(self):
        self.lowest = self.count()
        self._world.api.store.subscribe(self._notice)
        return self

    def _notice(self, change):
        if change.resource is PODS:
            self.lowest = min(self.lowest, self.count())


def labelled(world):
    return [p for p in world.pods() if "kubedsm.io/migrating" in p["metadata"]["labels"]]


def cleaned_up(world):
    mirror = world.runtime.mirror
    return (
        not labelled(world)
        and world.runtime.manager.quiet.is_set()
        and not mirror._reservations
        and not mirror._claims
        and not mirror.claimed
    )


async def quiet(world, seconds=90):
    await world.until(lambda: cleaned_up(world), seconds)
    await asyncio.sleep(2 * BURST_GAP)  # Events follow


async def at_rest(world):
    """Wait until nothing is written any more, and check that no migration has ever failed."""
    await asyncio.sleep(60)
    assert cleaned_up(world)
    before = world.invariants.writes
    await asyncio.sleep(60)
    assert world.invariants.writes == before
    assert not world.events("MigrationFailed")


async def settle_on_cloud(world, app, replicas, seconds=3, **pod_spec):
    """Deploy an app in the cloud and wait until its pods are settled."""
    await world.bring_up(app, replicas, within=seconds, **pod_spec)
    await asyncio.sleep(2)


def open_edge(world, edge=SMALL_EDGE):
    world.api.create(NODES, edge)


def migrating(*nodes, **world):
    return emulated(*nodes, configuration=CONFIGURATION, **world)


def by_hand(configuration=BY_HAND, **world):
    return emulated(LARGE_CLOUD, configuration=configuration, **world)


#: seconds between pods that come again and again, and seconds of each of their binds
WITHOUT_A_PAUSE = {"quick binds": (0.5, 0.0), "overlapping": (0.5, 2.5), "slow": (4.0, 9.0)}


def shop_binds(seconds):
    """Return the fault that makes each bind of the namespace shop take some seconds."""
    fault = RequestFault(OutcomeUnknown("slow"), applied=True, late=seconds, delay=seconds)
    return Failing(lambda r: "/shop/" in r.path and r.path.endswith("/binding"), fault)


@asynccontextmanager
async def arrivals(world, period):
    """Create a pod of the namespace shop again and again during the block."""

    async def come():
        for number in range(1000):
            world.create_pod(f"pod-{number}", "0", "shop", memory="1Mi")
            await asyncio.sleep(period)

    world.namespace("shop")
    async with asyncio.TaskGroup() as tasks:
        coming = tasks.create_task(come())
        yield
        coming.cancel()


@asynccontextmanager
async def on_cloud(replicas=1, faults=None, **pod_spec):
    """Run a scheduler that migrates, with replicas of web settled in the cloud."""
    async with migrating(LARGE_CLOUD) as world, world.scheduler(faults=faults):
        await settle_on_cloud(world, "web", replicas, **pod_spec)
        yield world


@asynccontextmanager
async def ready_to_move(replicas=1, edge=ONE_PLACE, configuration=BY_HAND, faults=None):
    """Run a scheduler with manual migrations, settled replicas of web, and free edge capacity."""
    async with by_hand(configuration) as world, world.scheduler(faults=faults):
        await settle_on_cloud(world, "web", replicas)
        open_edge(world, edge)
        await asyncio.sleep(0.1)
        yield world


async def hand_over(
    world, moves, *, plan="plan-by-hand", worth=lambda: True, deadline=10, stopping=()
):
    """Hand a plan to the placement manager; each move is (pod, target, pods that must be gone).

    Pods of `stopping` migrate through the cloud.
    """
    mirror = world.runtime.mirror
    uids = [Uid(p["metadata"]["uid"]) for p, *_ in moves]
    pods = tuple(map(mirror.pod, uids))
    stops = {p["metadata"]["uid"] for p in stopping}
    decided = [
        Move(pod, pod.node_name, target, None, "c1" if pod.uid in stops else None)
        for pod, (_, target, _) in zip(pods, moves, strict=True)
    ]
    needs = {
        uid: frozenset(p["metadata"]["uid"] for p in needed)
        for uid, (*_, needed) in zip(uids, moves, strict=True)
    }
    legs = Order(tuple(decided), needs).legs(decided)
    orders = tuple(
        attrs.evolve(order_of(plan, leg, world.configuration), deadline=deadline) for leg in legs
    )
    moves = tuple(plan_outcome(order.id, leg) for order, leg in zip(orders, legs, strict=True))
    world.runtime.manager.migrate(plan, Group(orders, moves, worth))


def group_of(orders, mirror):
    """Return the migration group of the given orders, without legs."""
    pods = {uid: mirror.pod(Uid(uid)) for uid in (order.pod for order in orders) if uid}
    pods[""] = next(iter(pods.values()))
    moves = tuple(
        MoveOutcome(o.id, Move(pods[o.pod], None, o.target, None), Outcome.PLANNED) for o in orders
    )
    return Group(tuple(orders), moves, lambda: True)


def is_detached(pod):
    return "kubedsm.io/migrating" in pod["metadata"]["labels"]


class When:
    """Call `action` once, as soon as a pod in the store satisfies `condition`."""

    def __init__(self, world, condition, action):
        self.done = False
        self._world, self._condition, self._action = world, condition, action
        world.api.store.subscribe(self._notice)

    def _notice(self, change):
        if self.done or change.resource is not PODS or change.type == "DELETED":
            return
        if self._condition(change.object):
            self.done = True
            self._action(change.object)


def replacement(world):
    """Return a predicate for pods that are created from now on."""
    known = {pod["metadata"]["uid"] for pod in world.pods()}
    return lambda pod: pod["metadata"]["uid"] not in known


def is_bound(pod):
    return "nodeName" in pod["spec"]


def both(one, other):
    return lambda pod: one(pod) and other(pod)


def name(pod):
    return pod["metadata"]["name"]


def becomes_unready(world, pod):
    """Make a pod permanently unready."""
    never = {"metadata": {"annotations": {"emulator.kubedsm.io/never-ready": "true"}}}
    world.patch(PODS, name(pod), never)


class AtRequest(Faults):
    """Call `action` before the n-th matching request is sent; the request may fail then."""

    def __init__(self, matches, action, n=1, fault=None):
        self.left, self.matches, self.action, self.fault = n, matches, action, fault
        self.done = False

    def on_request(self, request):
        if self.done or not self.matches(request):
            return None
        self.left -= 1
        if self.left:
            return None
        self.done = True
        self.action()
        return self.fault
