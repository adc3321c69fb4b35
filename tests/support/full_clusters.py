"""Full clusters: nodes of low-priority pods that an urgent pod may preempt, and free capacity in
pieces, which packing can consolidate.
"""

import asyncio

import attrs

from kubedsm.config.settings import load
from kubedsm_lab.emulator.emulated_cluster import Timing
from kubedsm_lab.emulator.front import Faults
from kubedsm_lab.emulator.paper import node
from support.worlds import emulated

#: moves are for room alone
APPLY = load(
    """
suggester: {mode: off}
optimiser: {mode: apply}
migration: {drainDelay: 1s, deadline: 10s}
""",
    "test",
)


def in_pieces(*, tier="cloud", configuration=APPLY, nodes=2, **world):
    """Run a cluster of nodes with 4 cores each."""
    made = (node(f"n{number}", tier, "4", "8Gi") for number in range(1, nodes + 1))
    return emulated(*made, configuration=configuration, **world)


async def half_full(world, pods=2, **pod_spec):
    """Deploy pods of 2 cores, each on its own node."""
    await world.bring_up("web", pods, within=3, cpu="2", **pod_spec)
    await asyncio.sleep(2)
    assert sorted(world.placed("web").values()) == [1] * pods


def large(world, name="large", **pod_spec):
    """Deploy a pod that fits only after two other pods are packed on one node."""
    return world.deploy(name, 1, cpu="3", **pod_spec)


def placed(world, app="large"):
    return world.bound(app)


def settled(world):
    """Return whether no reservation is held and no plan is in progress."""
    runtime = world.runtime
    mirror, preemptor = runtime.mirror, runtime.preemptor
    held = mirror._reservations or mirror._claims or preemptor.nominations or preemptor._kept
    return runtime.manager.quiet.is_set() and not held


ENABLED = load('{preemption: enabled, suggester: {mode: "off"}}', "test")
DISABLED = attrs.evolve(ENABLED, preemption="disabled")
#: the classes that every cluster has; pods without one have priority 0
HIGH, HIGHEST = "system-cluster-critical", "system-node-critical"
SMALL = node("e1", "edge", "2", "8Gi")
EDGE_TOO = node("e9", "edge", "1", "8Gi")
#: pods take most of their grace period to stop
SLOW_STOP = Timing(start_delay=0.5, stop_delay=15.0)


def preempting(*nodes, **world):
    return emulated(*(nodes or (SMALL,)), **{"configuration": ENABLED, **world})


def urgent(world, name="urgent", replicas=1, priority=HIGH, **more):
    return world.deploy(name, replicas, priorityClassName=priority, **more)


class Evictions(Faults):
    """Faults that record eviction requests; the n-th real eviction may fail."""

    def __init__(self, fault=None, at=0, on_eviction=None):
        self.fault, self.at, self.on_eviction = fault, at, on_eviction
        self.asked = []
        self.done = []

    def on_request(self, request):
        if not request.path.endswith("/eviction"):
            return None
        name = request.path.split("/")[-2]
        if "dryRun" in request.body["deleteOptions"]:
            self.asked.append(name)
            if self.on_eviction is not None:
                self.on_eviction()
            return None
        assert request.body["deleteOptions"]["preconditions"]["uid"]
        self.done.append(name)
        return self.fault if len(self.done) - 1 == self.at else None


async def filled(world, replicas=2, **more):
    """Fill the cluster with running low-priority pods; return their names."""
    await world.bring_up("low", replicas, within=3, **more)
    await asyncio.sleep(1)
    return {pod["metadata"]["name"] for pod in world.pods("low")}
