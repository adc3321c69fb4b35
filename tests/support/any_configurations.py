"""Hypothesis strategies for configurations with all settings, and for invalid documents."""

import json
import re

import attrs
from hypothesis import strategies as st

from kubedsm.config.duration import parse_duration
from kubedsm.config.fields import kind_of
from kubedsm.config.load_aware import LoadAware, NodeCapacity
from kubedsm.config.sections import BatchSettings, Fairness, Latency, ObjectiveSettings
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


def seconds(low, high):
    whole = st.integers(int(low * 1e9), int(high * 1e9))
    return st.floats(low, high) | whole.map(lambda nanoseconds: nanoseconds / 1e9)


def of_schema(schema):
    """Return a strategy for the values of a duration, word, flag or number, or None."""
    bounds = re.match(r"a duration between (\S+) and (\S+),", schema.get("description", ""))
    if bounds:
        return seconds(*map(parse_duration, bounds.groups()))
    if "enum" in schema:
        return st.sampled_from([word for word in schema["enum"] if isinstance(word, str)])
    if "boolean" in schema["type"]:
        return st.booleans()
    if "integer" in schema["type"]:
        return st.integers(schema["minimum"], schema["maximum"])
    return st.floats(schema["minimum"], schema["maximum"]) if "minimum" in schema else None


def sections(cls, **given):
    """Return a strategy for a section: `given` settings, and all that `of_schema` knows."""
    for field in attrs.fields(cls):
        if field.name in given:
            continue
        if attrs.has(type(field.default)):
            given[field.name] = sections(type(field.default))
        elif (values := of_schema({"type": ()} | kind_of(field).schema)) is not None:
            given[field.name] = values | st.none() if field.default is None else values
    return st.builds(cls, **given)


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
    return draw(sections(BatchSettings, idle=st.just(idle), max=st.just(longest)))


@st.composite
def objectives(draw):
    beta, alpha = sorted(draw(st.sets(st.floats(0, 1000), min_size=2, max_size=2)))
    return draw(sections(ObjectiveSettings, alpha=st.just(alpha), beta=st.just(beta)))


@st.composite
def latencies(draw):
    edge, cloud = sorted(draw(st.sets(seconds(0, 60), min_size=2, max_size=2)))
    return draw(sections(Latency, edge=st.just(edge), cloud=st.just(cloud)))


capacities = st.builds(
    NodeCapacity,
    node_selector=st.dictionaries(names, st.sampled_from(["a", "1e3", "null"]), max_size=2),
    net=st.none() | st.integers(1, 2**50),
    disk=st.none() | st.integers(1, 2**50),
)
configurations = sections(
    Configuration,
    scheduler_name=names,
    tiers=tiers(),
    batch=batches(),
    objective=objectives(),
    services=st.dictionaries(
        st.just("*")
        | st.builds("{}/{}".format, names, names | st.just("*"))
        | st.builds("*/{}".format, names),
        qos_targets,
        max_size=3,
    ),
    fairness=sections(Fairness, namespaces=st.dictionaries(names, st.floats(0, 1000), max_size=3)),
    latency=latencies(),
    load_aware=sections(
        LoadAware,
        prometheus=st.sampled_from(["", "http://p:9090"]),
        capacity=st.lists(capacities, max_size=3, unique_by=repr).map(tuple),
    ),
)
