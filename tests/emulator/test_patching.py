"""Merge, JSON and strategic merge patches, case by case and against their definitions."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.patching import (
    JSON_PATCH,
    STRATEGIC_MERGE_PATCH,
    json_patch,
    merge_patch,
    patched,
)
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, NODES, PODS

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        # of the table of RFC 7386, appendix A
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch(target, patch, result):
    assert merge_patch(target, patch) == result


@given(JSON, JSON)
def test_a_merge_patch_applied_twice_is_one_applied_once_and_changes_no_input(target, patch):
    before = copy.deepcopy((target, patch))
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once
    assert (target, patch) == before


@pytest.mark.parametrize(
    ("document", "operation", "result"),
    [
        # RFC 6902, appendix A
        ({"a": 1}, {"op": "add", "path": "/b", "value": 2}, {"a": 1, "b": 2}),
        ({"a": [1, 2]}, {"op": "add", "path": "/a/1", "value": 9}, {"a": [1, 9, 2]}),
        ({"a": [1]}, {"op": "add", "path": "/a/-", "value": [2]}, {"a": [1, [2]]}),
        ({"a": 1, "b": 2}, {"op": "remove", "path": "/a"}, {"b": 2}),
        ({"a": [1, 2, 3]}, {"op": "remove", "path": "/a/1"}, {"a": [1, 3]}),
        ({"a": 1}, {"op": "replace", "path": "/a", "value": None}, {"a": None}),
        (
            {"a": {"x": 1}, "b": {}},
            {"op": "move", "from": "/a/x", "path": "/b/y"},
            {"a": {}, "b": {"y": 1}},
        ),
        ({"a": [1, 2]}, {"op": "move", "from": "/a/0", "path": "/a/1"}, {"a": [2, 1]}),
        (
            {"a": {"b": 1}},
            {"op": "copy", "from": "/a", "path": "/c"},
            {"a": {"b": 1}, "c": {"b": 1}},
        ),
        ({"m~n": {"a/b": 1}}, {"op": "remove", "path": "/m~0n/a~1b"}, {"m~n": {}}),
        ({"a": [{"b": 1}]}, {"op": "test", "path": "/a/0", "value": {"b": 1}}, {"a": [{"b": 1}]}),
    ],
)
def test_json_patch(document, operation, result):
    before = copy.deepcopy(document)
    assert json_patch(document, [operation]) == result
    assert document == before


def pod(**spec):
    return {"metadata": {"name": "a"}, "spec": spec}


def strategic(current, patch, resource=PODS):
    before = copy.deepcopy(current)
    result = patched(resource, current, patch, STRATEGIC_MERGE_PATCH)
    assert current == before
    return result


def test_containers_merge_by_name_and_their_variables_too():
    current = pod(containers=[{"name": "c", "image": "x", "env": [{"name": "A", "value": "1"}]}])
    patch = pod(containers=[{"name": "c", "env": [{"name": "B", "value": "2"}]}, {"name": "d"}])
    assert strategic(current, patch)["spec"]["containers"] == [
        {
            "name": "c",
            "image": "x",
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        },
        {"name": "d"},
    ]


def test_lists_of_a_workloads_template_merge_like_those_of_a_pod():
    def deployment(container):
        return {"spec": {"template": {"spec": {"containers": [container]}}}}

    merged = strategic(
        deployment({"name": "c", "image": "x", "ports": [{"containerPort": 80}]}),
        deployment({"name": "c", "image": "y"}),
        DEPLOYMENTS,
    )
    assert merged == deployment({"name": "c", "image": "y", "ports": [{"containerPort": 80}]})


def test_conditions_merge_by_type():
    current = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    patch = {"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "New"}]}}
    assert strategic(current, patch) == {
        "status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "New"}]}
    }


@pytest.mark.parametrize(("resource", "field"), [(PODS, "tolerations"), (NODES, "taints")])
def test_tolerations_and_taints_are_atomic(resource, field):
    """As in k8s.io/api: `kubectl taint` sends the whole list, or could remove none."""
    current = pod(**{field: [{"key": "a"}, {"key": "b"}]})
    assert strategic(current, pod(**{field: [{"key": "b"}]}), resource) == pod(
        **{field: [{"key": "b"}]}
    )


def test_finalizers_are_a_set():
    current = {"metadata": {"finalizers": ["a", "b"]}}
    added = strategic(current, {"metadata": {"finalizers": ["b", "c"]}})
    assert added["metadata"]["finalizers"] == ["a", "b", "c"]
    removed = strategic(current, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}})
    assert removed["metadata"]["finalizers"] == ["b"]


def test_owners_merge_by_uid_and_can_be_deleted_by_it():
    current = {"metadata": {"ownerReferences": [{"uid": "1"}, {"uid": "2"}]}}
    patch = {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "1"}]}}
    assert strategic(current, patch) == {"metadata": {"ownerReferences": [{"uid": "2"}]}}


def test_null_removes_also_within_something_new():
    current = pod(nodeName="n")
    assert strategic(current, pod(nodeName=None, affinity={"a": None, "b": 1})) == pod(
        affinity={"b": 1}
    )


@given(JSON, JSON)
def test_outside_known_lists_a_strategic_patch_is_a_merge_patch(current, patch):
    current, patch = {"data": current}, {"data": patch}
    assert patched(PODS, current, patch, STRATEGIC_MERGE_PATCH) == merge_patch(current, patch)


@pytest.mark.parametrize(
    ("patch", "content_type", "status"),
    [
        ([{"op": "replace", "path": "", "value": 1}], JSON_PATCH, 400),
        (pod(containers=[{"image": "x"}]), STRATEGIC_MERGE_PATCH, 400),
        (pod(containers=["x"]), STRATEGIC_MERGE_PATCH, 400),
        (pod(containers={"name": "x"}), STRATEGIC_MERGE_PATCH, 400),
        ({"$patch": "frobnicate"}, STRATEGIC_MERGE_PATCH, 400),
        ({"$retainKeys": 1}, STRATEGIC_MERGE_PATCH, 400),
        ({"$deleteFromPrimitiveList/a": 1}, STRATEGIC_MERGE_PATCH, 400),
    ],
)
def test_what_is_no_patch_is_refused(patch, content_type, status):
    with pytest.raises(ApiError) as refused:
        patched(PODS, pod(), patch, content_type)
    assert refused.value.status == status
