"""Clusters with fragmented free capacity, which packing can consolidate."""

import asyncio

from kubedsm.config.settings import load
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
    return sum(number for name, number in world.placed(app).items() if name is not None)


def settled(world):
    """Return whether no reservation is held and no plan is in progress."""
    runtime = world.runtime
    mirror, preemptor = runtime.mirror, runtime.preemptor
    held = mirror._reservations or mirror._claims or preemptor.nominations or preemptor._kept
    return runtime.manager.quiet.is_set() and not held
