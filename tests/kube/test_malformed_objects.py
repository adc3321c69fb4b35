"""What is no JSON of the API is a WireError of one line, whatever it is."""

import copy
import json
import random
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubedsm.kube.wire import decoding, schema
from kubedsm.kube.wire.errors import WireError
from kubedsm_lab.bench.watched_pods import watch_line
from support.any_damage import places, put
from support.drawing import examples
from support.wire_pods import container, made_pod


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("spec", "containers", 0, "resources", "requests", "cpu"), "5x",
         "Pod shop/a: spec.containers[0].resources.requests.cpu: '5x' is not a quantity"),
        (("spec", "containers", 0, "resources", "requests", "cpu"), "-1",
         "Pod shop/a: spec.containers[0].resources.requests.cpu: '-1' is negative"),
        (("spec", "containers", 0, "resources", "requests", "cpu"), True,
         "Pod shop/a: spec.containers[0].resources.requests[...]: expected"),
        (("spec", "overhead"), {"memory": "lots"},
         "Pod shop/a: spec.overhead.memory: 'lots' is not a quantity"),
        (("spec", "initContainers"), [container(cpu=".")],
         "Pod shop/a: spec.initContainers[0].resources.requests.cpu: '.' is not a quantity"),
        (("spec", "resources"), {"requests": {"cpu": "?"}},
         "Pod shop/a: spec.resources.requests.cpu: '?' is not a quantity"),
        (("spec", "containers"), {}, "Pod shop/a: spec.containers: expected `array | null`"),
        (("spec", "priority"), "high", "Pod shop/a: spec.priority: expected `int | null`"),
        (("spec", "tolerations"), ["any"], "Pod shop/a: spec.tolerations[0]: expected `object`"),
        (("spec",), None, "Pod shop/a: spec: expected `object`, got `null`"),
        (("metadata", "name"), 7, "Pod shop: metadata.name: expected `str`, got `int`"),
        (("metadata", "name"), "", "Pod shop: metadata.name: expected `str` of length >= 1"),
        (("metadata", "uid"), None, "Pod shop/a: metadata.uid: missing"),
        (("metadata", "namespace"), None, "Pod a: metadata.namespace: missing"),
        (("metadata", "creationTimestamp"), "noon", "Pod shop/a: metadata.creationTimestamp: inv"),
        (("metadata", "labels"), {"a": 1}, "Pod shop/a: metadata.labels[...]: expected `str`"),
        (("metadata",), None, "Pod: metadata: expected `object`, got `null`"),
        (("status", "conditions"), 3, "Pod shop/a: status.conditions: expected"),
    ],
)  # fmt: skip
def test_a_malformed_pod_is_told_in_one_line(path, value, told):
    shown = copy.deepcopy(made_pod())
    put(shown, path, value)
    encoded = json.dumps(shown).encode()
    line = json.dumps({"type": "ADDED", "object": shown}).encode()
    for read, source in (
        (decoding.pod, shown),
        (decoding.pod, encoded),
        (decoding.PODS.reader.line, line),
    ):
        with pytest.raises(WireError) as raised:
            read(source)
        assert str(raised.value).startswith(told)
        assert "\n" not in str(raised.value)


def test_what_could_be_read_of_a_malformed_object_is_kept():
    with pytest.raises(WireError) as raised:
        decoding.pod(made_pod(priority="high"))
    error = raised.value
    assert (error.kind, error.namespace, error.name, error.uid) == ("Pod", "shop", "a", "u1")
    assert error.path == "spec.priority"


@pytest.mark.parametrize(
    ("shown", "told"),
    [
        ({"metadata": {"name": "n2"}, "status": {"allocatable": {"cpu": "many"}}},
         "Node n2: status.allocatable.cpu: 'many' is not a quantity"),
        ({"metadata": {"name": "n2"}, "spec": {"taints": [{"key": "a"}]}},
         "Node n2: spec.taints[0]: object missing required field `effect`"),
        ({"spec": {}}, "Node: object missing required field `metadata`"),
    ],
)  # fmt: skip
def test_a_malformed_node_is_told_in_one_line(shown, told):
    with pytest.raises(WireError) as raised:
        decoding.node(shown)
    assert str(raised.value).startswith(told)


@pytest.mark.parametrize(
    "source",
    [
        b"", b"[]", b"null", b"404 page not found\n", b"<html>", b'{"metadata', b"\xff\xfe",
        b'{"metadata": {"name": "\xff"}}', b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"type":"GONE","object":{}}', b'{"type":"ADDED"}', b'{"type":"ADDED","object":null}',
        b'{"type":3,"object":{}}', None, [], "pod", {1: 2}, {"metadata": {1: 2}},
    ],
)  # fmt: skip
def test_anything_else_is_a_wire_error_too(source):
    reads = [decoding.pod, decoding.node, decoding.config_map]
    if isinstance(source, bytes):
        reads += [
            decoding.PODS.reader.line,
            decoding.NODES.reader.line,
            decoding.PODS.reader.item,
            partial(decoding.read_json, "Version", shape=schema.ServerVersion),
        ]
    for read in reads:
        with pytest.raises(WireError):
            read(source)


def test_of_two_fields_of_one_name_the_last_counts():
    encoded = json.dumps(made_pod()).encode()
    twice = encoded.replace(b'"spec":', b'"spec": {"nodeName": "n2"}, "spec":')
    assert twice.count(b'"spec":') == 2
    assert decoding.pod(twice) == decoding.pod(encoded)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


WHOLE = json.loads(watch_line(random.Random(0)))["object"]
PLACES = sorted(places(WHOLE), key=str)


def complaint(read, source):
    """The WireError's text, empty if there is nothing to complain of."""
    try:
        read(source)
    except WireError as error:
        return str(error)
    return ""


@examples(100)
@given(st.sampled_from(PLACES), anything)
def test_whatever_is_put_anywhere_it_is_a_pod_or_a_wire_error(place, value):
    spoilt = copy.deepcopy(WHOLE)
    put(spoilt, place, value)
    for read, source in (
        (decoding.pod, spoilt),
        (decoding.pod, json.dumps(spoilt).encode()),
        (decoding.PODS.reader.line, json.dumps({"type": "ADDED", "object": spoilt}).encode()),
    ):
        assert "\n" not in complaint(read, source)


@examples(70)
@given(st.integers(0, 4200), st.binary(max_size=4), st.integers(0, 3))
def test_damaged_bytes_are_a_line_or_a_wire_error(at, bytes_, removed):
    line = watch_line(random.Random(0))
    damaged = line[:at] + bytes_ + line[at + removed :]
    assert "\n" not in complaint(decoding.PODS.reader.line, damaged)
