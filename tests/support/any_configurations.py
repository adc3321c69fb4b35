"""Hypothesis strategies for configurations with all settings, and for invalid documents."""

import json

from hypothesis import strategies as st

from kubedsm.config.load_aware import LoadAware, NodeCapacity
from kubedsm.config.sections import (
    BatchSettings,
    Fairness,
    Latency,
    MigrationSettings,
    ObjectiveSettings,
    OptimiserSettings,
    SuggesterSettings,
)
from kubedsm.config.services import Service
from kubedsm.config.settings import Configuration
from kubedsm.model.model import Tiers

_KEYS = (
    st.text(max_size=5)
    | st.sampled_from(
        ["batch", "idle", "size", "services", "*", "shop/cart", "qos", "tiers", "label", "edge"]
    )
    | st.sampled_from(["latency", "objective", "alpha", "suggester", "mode", "price", "kind"])
)
_NESTED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)
texts = st.text(max_size=60) | _NESTED.map(json.dumps)
documents = texts | st.binary(max_size=30)


def nanoseconds(low, high):
    return st.integers(low, high).map(lambda ns: ns / 1e9)


def seconds(low, high):
    return st.floats(low, high) | nanoseconds(int(low * 1e9), int(high * 1e9))


modes = st.sampled_from(["surge", "recreate", "off"])
weights = st.none() | st.floats(0, 1000)
qos_targets = st.one_of(
    st.builds(Service, qos=st.none() | st.floats(0, 1), weight=weights, mode=st.none() | modes),
    st.builds(Service, latency_target=seconds(0, 60), weight=weights, mode=st.none() | modes),
)
names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
label_values = st.sets(
    st.sampled_from(["edge", "near", "off", "1", "1e3", "null", "a.b_c"]), min_size=2, max_size=5
)


@st.composite
def tiers(draw):
    values = sorted(draw(label_values))
    cut = draw(st.integers(1, len(values) - 1))
    labels = st.lists(
        st.sampled_from(["kubedsm.io/tier", "nodetype", "on"]), min_size=1, max_size=3, unique=True
    )
    return Tiers(tuple(draw(labels)), frozenset(values[:cut]), frozenset(values[cut:]))


@st.composite
def batches(draw):
    idle, longest = sorted(draw(st.tuples(seconds(0, 60), seconds(0, 60))))
    return BatchSettings(idle, longest, draw(st.integers(1, 10_000)))


@st.composite
def objectives(draw):
    beta, alpha = sorted(draw(st.sets(st.floats(0, 1000), min_size=2, max_size=2)))
    return ObjectiveSettings("share", alpha, beta, draw(st.floats(0, 1000)))


@st.composite
def latencies(draw):
    return Latency(*sorted(draw(st.sets(seconds(0, 60), min_size=2, max_size=2))))


capacities = st.builds(
    NodeCapacity,
    node_selector=st.dictionaries(names, st.sampled_from(["a", "1e3", "null"]), max_size=2),
    net=st.none() | st.integers(1, 2**50),
    disk=st.none() | st.integers(1, 2**50),
)
configurations = st.builds(
    Configuration,
    scheduler_name=names,
    tiers=tiers(),
    batch=batches(),
    suggester=st.builds(
        SuggesterSettings,
        mode=st.sampled_from(["apply", "suggest", "off"]),
        algorithm=st.sampled_from(["exact", "paper"]),
        period=seconds(0.01, 86400),
        max_moves=st.integers(0, 1000),
        max_cloud_to_edge=st.integers(0, 1000),
        max_edge_reorder=st.integers(0, 1000),
        defragment=st.booleans(),
    ),
    optimiser=st.builds(
        OptimiserSettings,
        mode=st.sampled_from(["apply", "suggest", "off", None]),
        delay=seconds(0.1, 86400),
        budget=seconds(0.01, 600),
        tier_share=st.floats(0, 1),
        allow_evictions=st.booleans(),
    ),
    migration=st.builds(
        MigrationSettings,
        mode=modes,
        max_concurrent=st.integers(1, 1000),
        max_per_node=st.integers(1, 1000),
        max_per_workload=st.integers(1, 1000),
        price=seconds(0, 86400),
        cooldown=seconds(0, 86400),
        drain_delay=seconds(0, 3600),
        deadline=seconds(0.1, 86400),
    ),
    objective=objectives(),
    services=st.dictionaries(
        st.just("*")
        | st.builds("{}/{}".format, names, names | st.just("*"))
        | st.builds("*/{}".format, names),
        qos_targets,
        max_size=3,
    ),
    fairness=st.builds(
        Fairness,
        per_namespace=st.booleans(),
        namespaces=st.dictionaries(names, st.floats(0, 1000), max_size=3),
    ),
    latency=latencies(),
    load_aware=st.builds(
        LoadAware,
        prometheus=st.sampled_from(["", "http://p:9090"]),
        period=seconds(0.1, 3600),
        window=seconds(1, 86400),
        weight=st.floats(0, 1000),
        move=st.booleans(),
        min_load_gain=st.floats(0.1, 100),
        high_usage=st.floats(0.01, 1),
        capacity=st.lists(capacities, max_size=3, unique_by=repr).map(tuple),
    ),
)
