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
    CSI_NODES,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    Resource,
)
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.virtual_time import run_in_virtual_time
from support.any_configurations import configurations, texts
from support.any_damage import JUNK
from support.any_objects import nodes, pod_specs, pods
from support.drawing import examples
from support.shown import Shown
from support.tenants import (
    BOUND,
    CLOUD,
    CONFIGURATION,
    EDGE,
    MOVED,
    NEIGHBOUR,
    Tenant,
    neighbour_settles,
    served,
)
from support.worlds import emulated


@attrs.frozen
class Odd:
    """API object to create, and damage to show afterwards: pairs of place number and value."""

    resource: Resource
    object: dict
    damages: tuple = ()


_NAMES = st.sampled_from(("n" * 253, "n" * 63, "0", "a.b-c", "x"))
_NAMED = st.one_of(
    _NAMES.map(lambda name: {"name": name}), st.just({"generateName": "g-"}), st.just({"name": "X"})
)


def _owner(kind, name, uid="gone", controller=True, group="apps/v1"):
    return {
        "apiVersion": group, "kind": kind, "name": name, "uid": uid, "controller": controller,
    }  # fmt: skip


_OWNERS = (
    _owner("ReplicaSet", "mover"),
    _owner("ReplicaSet", "x-h"),
    _owner("StatefulSet", "x"),
    _owner("Job", "x", group="batch/v1"),
    _owner("Deployment", "x", controller=False),
    _owner("Rollout", "n" * 253, group="argoproj.io/v1alpha1"),
    _owner("Node", "c1", group="v1"),
)


@st.composite
def _workloads(draw, **more):
    labels = draw(st.sampled_from(({"app": "x"}, {"app": ""}, {"app": "x", "l" * 63: "v" * 63})))
    return {
        "metadata": {**draw(_NAMED)},
        "spec": {
            "replicas": draw(st.sampled_from((0, 1, 2, 3))),
            "minReadySeconds": draw(st.sampled_from((0, 0, 599))),
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": draw(pod_specs())},
            **more,
        },
    }


def _plain(*specs, **fields):
    """Return a strategy for objects with the given fields and one of the specs."""
    return st.builds(
        lambda named, spec: {"metadata": dict(named), **spec, **fields},
        _NAMED,
        st.sampled_from([{"spec": spec} for spec in specs] or [{}]),
    )


_LABELLED = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
KINDS = {
    PODS: _NAMED.flatmap(pods),
    NODES: _NAMES.flatmap(nodes),
    DEPLOYMENTS: _workloads(),
    REPLICA_SETS: _workloads(),
    STATEFUL_SETS: _workloads(serviceName="x"),
    POD_DISRUPTION_BUDGETS: _plain(
        {"selector": {}, "maxUnavailable": 0}, {"selector": _LABELLED, "minAvailable": "100%"},
        {"maxUnavailable": "0%"}, {"selector": _LABELLED, "minAvailable": 2**31 - 1},
    ),
    RESOURCE_QUOTAS: _plain({}, {"hard": {}}, {"hard": {"pods": "3"}},
        {"hard": {"requests.cpu": "9223372036854775807"}},
    ),
    SERVICES: _plain({"ports": [{"port": 80}]},
        {"selector": {"pod-template-hash": "h"}, "ports": [{"port": 65535}]},
        {"selector": {"app": ""}, "clusterIP": "None"},
    ),
    PRIORITY_CLASSES: _plain(value=-(2**31)),
    NAMESPACES: _plain(),
    PERSISTENT_VOLUME_CLAIMS: _plain(
        {"accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": "0"}}},
        {"accessModes": [], "volumeName": "x"},
    ),
    PERSISTENT_VOLUMES: _plain({}, {"csi": {"driver": "csi", "volumeHandle": "h"}},
        {"nodeAffinity": {"required": {"nodeSelectorTerms": [{}]}}},
    ),
    STORAGE_CLASSES: _plain(volumeBindingMode="WaitForFirstConsumer"),
    CSI_NODES: _plain({"drivers": []}, {"drivers": [{"name": "csi", "allocatable": {"count": 0}}]}
    ),
}  # fmt: skip
#: what only an API server, or a kubelet, says
_SAID = (
    (("metadata", "resourceVersion"), "abc"),
    (("metadata", "resourceVersion"), "9" * 5000),
    (("metadata", "creationTimestamp"), "0001-01-01T00:00:00Z"),
    (("metadata", "creationTimestamp"), "9999-12-31T23:59:59.999999999Z"),
    (("metadata", "deletionTimestamp"), "2099-01-01T00:00:00.5+13:00"),
    (("metadata", "generation"), 2**63 - 1),
    (("metadata", "uid"), "u" * 253),
    *((("metadata", "ownerReferences"), [owner]) for owner in _OWNERS),
    (("metadata", "ownerReferences"), list(_OWNERS)),
    (("status",), {}),
    (("status", "phase"), "Asleep"),
    (("status", "conditions"), [{"type": "Ready", "status": "Unknown"}] * 2),
    (("status", "conditions"), [{"type": "ReplicaFailure", "status": "True"}]),
    (("status", "replicas"), 2**31 - 1),
    (("status", "disruptionsAllowed"), 2**31 - 1),
    (("spec", "priority"), -(2**31)),
    (("spec", "nodeName"), "gone"),
)
damages = st.lists(
    st.one_of(st.sampled_from(_SAID), st.tuples(st.integers(0, 200), st.sampled_from(JUNK))),
    max_size=2,
).map(tuple)
_RESOURCES = st.sampled_from((PODS, PODS, PODS, NODES, DEPLOYMENTS, DEPLOYMENTS, *KINDS))


@st.composite
def odd(draw):
    resource = draw(_RESOURCES)
    return Odd(resource, draw(KINDS[resource]), draw(st.just(()) | damages))


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


@examples(8)
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
        made = world.config_map(**{KEY: GOOD[KEY]})
        shown = Shown(world)

        def edit(data, damages=(), turn=0):
            shown.show(made, damages)
            # Even one that changes nothing else is shown anew.
            patch = {"metadata": {"annotations": {"turn": str(turn)}}, "data": data}
            world.patch(CONFIGMAPS, NAME.name, patch, namespace=NAME.namespace)

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


@examples(3)
@given(st.lists(st.tuples(_EDITS, st.just(()) | damages), min_size=1, max_size=4))
def test_whatever_was_configured_is_over_once_it_is_put_right(edits):
    with capture_logs() as logs:
        run_in_virtual_time(edited(edits))
    said = [line["event"] for line in logs if line["log_level"] not in ("debug", "info")]
    assert len(said) <= 4 * len(edits), Counter(said)
