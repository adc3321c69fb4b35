"""Whatever comes in, the scheduler goes on, and an ordinary tenant is served as if it were alone.

The whole scheduler, in virtual time, beside objects that are valid at the edges of what the API
accepts, or damaged; there before it begins, or coming while a move is under way. What is wrong
with an object is said, and its trouble stays its own. `--hypothesis-profile=long` draws many more.
"""

import asyncio
from collections import Counter

import attrs
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from kubedsm.app.live_configuration import KEY
from kubedsm.config.settings import dump
from kubedsm.kube.client.port import ObjectName
from kubedsm.model.model import Tier
from kubedsm.observability.gauges import families
from kubedsm.observability.reading import Leadership, read
from kubedsm_lab.chaos.oracles import Invariants
from kubedsm_lab.emulator.api.resources import (
    CONFIGMAPS,
    NAMESPACES,
    NODES,
)
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.virtual_time import run_in_virtual_time
from support.any_configurations import configurations, texts
from support.any_inputs import damages, odd
from support.examples import examples
from support.shown import Shown
from support.tenants import (
    BOUND,
    CLOUD,
    CONFIGURATION,
    EDGE,
    MERGE,
    MOVED,
    NEIGHBOUR,
    Tenant,
    neighbour_settles,
    served,
)
from support.worlds import emulated

#: said again, for the same cause, at most so often in the minutes that a world lasts
_AGAIN = 4


def on_edge(world, app):
    """For each pod of the neighbour's app, whether it is on an edge node, as far as is known."""
    nodes = (world.runtime.mirror.node(p["spec"].get("nodeName")) for p in pods_of(world, app))
    return [node is not None and node.tier is Tier.EDGE for node in nodes]


def pods_of(world, app):
    return Tenant.of(world, NEIGHBOUR).pods(app)


async def lived_through(inputs, late):
    """The oracles of one world; returns what its watches cannot have read."""
    async with emulated(CLOUD, configuration=CONFIGURATION) as world:
        Tenant.of(world)
        shown = Shown(world)
        world.invariants = Invariants(shown)
        if not late:
            shown.create_all(inputs)
        async with world.scheduler(faults=shown) as runtime:
            await neighbour_settles(world)
            world.api.create(NODES, EDGE)
            await asyncio.sleep(2)
            await served(world, BOUND)
            # Two pods are to move there.
            world.api.create(NODES, node("e9", "edge", "10m", "1Gi"))
            if late:
                await asyncio.sleep(late)
                shown.create_all(inputs)
            await world.until(lambda: on_edge(world, "mover") == [True, True], 2 * MOVED)
            await asyncio.sleep(60)
            assert list(families(read(runtime, Leadership(), world.clock.wall())))
            before = len(world.witness.asked)
            await asyncio.sleep(60)
            writes = [asked.kind for asked in world.witness.asked[before:] if asked.kind != "GET"]
            assert len(writes) <= 4 * len(inputs) + 30 * len(shown.otherwise), Counter(writes)
            assert on_edge(world, "mover") == [True, True]
            assert not runtime.supervisor.caught
        return list(shown.unreadable())


def passes(inputs, late):
    with capture_logs() as logs:
        wrong = run_in_virtual_time(lived_through(inputs, late))
    assert [line for line in logs if line["log_level"] in ("error", "critical")] == []
    warnings = Counter(str(line) for line in logs if line["log_level"] == "warning")
    assert all(number <= _AGAIN for number in warnings.values()), warnings
    assert len(warnings) <= 10 * len(inputs), warnings
    for kind, why in wrong:
        assert any(kind in line and why in line for line in warnings), (kind, why, warnings)


@examples(30)
@given(st.lists(odd(), min_size=1, max_size=8), st.sampled_from((0, 0.5, 1.5, 3)))
def test_an_odd_object_costs_only_itself(inputs, late):
    passes(inputs, late)


NAME = ObjectName("kubedsm", "kubedsm")
GOOD = {KEY: dump(CONFIGURATION), "paused": None}
#: what is put into the ConfigMap, and what its JSON is made into on the way
_EDITS = st.one_of(
    st.fixed_dictionaries({KEY: texts}),
    configurations.map(lambda it: {KEY: dump(attrs.evolve(it, scheduler_name="kubedsm"))}),
    st.sampled_from(({KEY: None}, {"paused": "☃"}, {"paused": " TRUE\n"}, {"k" * 253: ""})),
)


async def edited(edits):
    async with emulated(CLOUD, configuration=CONFIGURATION, source=NAME) as world:
        world.api.create(NAMESPACES, {"metadata": {"name": NAME.namespace}})
        made = {"metadata": {"name": NAME.name}, "data": {KEY: GOOD[KEY]}}
        made = world.api.create(CONFIGMAPS, made, namespace=NAME.namespace)
        shown = Shown(world)

        def edit(data, damages=(), turn=0):
            shown.show(made, damages)
            # Even one that changes nothing else is shown anew.
            patch = {"metadata": {"annotations": {"turn": str(turn)}}, "data": data}
            world.api.patch(CONFIGMAPS, NAME.namespace, NAME.name, patch, MERGE)

        async with world.scheduler(faults=shown) as runtime:
            await neighbour_settles(world)
            world.api.create(NODES, EDGE)
            for number, (data, damages) in enumerate(edits, 1):
                edit(data, damages, number)
                Tenant.of(world, "default").deploy(f"some-{number}", 2)
                await asyncio.sleep(5)
            edit(GOOD)
            await asyncio.sleep(2)
            assert runtime.configuration.current == CONFIGURATION
            assert runtime.configuration.valid
            assert not runtime.pause_switch.is_set
            await served(world, BOUND)
            world.api.create(NODES, node("e9", "edge", "10m", "1Gi"))
            await world.until(lambda: on_edge(world, "mover") == [True, True], 2 * MOVED)
            assert not runtime.supervisor.caught


@examples(8)
@given(st.lists(st.tuples(_EDITS, st.just(()) | damages), min_size=1, max_size=4))
def test_whatever_was_configured_is_over_once_it_is_put_right(edits):
    with capture_logs() as logs:
        run_in_virtual_time(edited(edits))
    said = [line["event"] for line in logs if line["log_level"] not in ("debug", "info")]
    assert len(said) <= 4 * len(edits), Counter(said)
