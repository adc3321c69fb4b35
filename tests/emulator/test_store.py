"""The API server's parts: stored revisions, selectors, and patches.

Revisions: one a commit, changes in order, history as far back as it goes."""

import copy
import random

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
from kubedsm_lab.emulator.api.resources import (
    CONFIGMAPS,
    DEPLOYMENTS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
)
from kubedsm_lab.emulator.api.selectors import (
    SelectorError,
    label_selector_of,
    parse_labels,
    selection,
)
from kubedsm_lab.emulator.api.store import ExpiredError, Store
from support.fixed_clock import FixedClock


def store(history=10_000):
    return Store(FixedClock(), random.Random(0), history=history)


def named(name, namespace="shop", **data):
    return {"metadata": {"name": name, "namespace": namespace}, "data": data}


def test_a_deletion_shows_the_last_state_at_its_own_revision():
    s = store()
    s.put(CONFIGMAPS, named("a", key="1"))
    last = s.remove(CONFIGMAPS, "shop", "a")
    assert last["data"] == {"key": "1"}
    assert last["metadata"]["resourceVersion"] == "3"
    assert s.get(CONFIGMAPS, "shop", "a") is None
    assert [c.type for c in s.history(CONFIGMAPS, 1)] == ["ADDED", "DELETED"]


def test_a_subscriber_that_writes_is_heard_after_what_it_answers():
    """Controllers write from within a callback; nobody may see effect before cause."""
    s = store()
    seen = []

    def answer(change):
        if change.object["metadata"]["name"] == "cause":
            s.put(CONFIGMAPS, named("effect"))

    s.subscribe(answer)
    s.subscribe(lambda change: seen.append(change.revision))
    s.put(CONFIGMAPS, named("cause"))
    assert seen == [2, 3]


def test_held_changes_are_told_together_at_the_end():
    s = store()
    seen = []
    s.subscribe(lambda c: seen.append((c.revision, s.get(PODS, "shop", "a") is None)))
    with s.held():
        s.put(PODS, named("a"))
        s.remove(PODS, "shop", "a")
        assert seen == []
    assert seen == [(2, True), (3, True)]


def test_history_ends_where_the_ring_ends():
    s = store(history=2)
    for value in range(4):
        s.put(CONFIGMAPS, named("a", value=value))
    assert [c.revision for c in s.history(CONFIGMAPS, 3)] == [4, 5]
    with pytest.raises(ExpiredError, match=r"too old resource version: 2 \(3\)"):
        s.history(CONFIGMAPS, 2)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=30))
def test_replaying_the_history_gives_the_list(writes):
    s = store()
    lists = {s.revision: s.list(PODS)}
    for name, delete in writes:
        if not delete:
            s.put(PODS, named(name, turn=s.revision))
        elif s.get(PODS, "shop", name):
            s.remove(PODS, "shop", name)
        lists[s.revision] = s.list(PODS)
    for revision, then in lists.items():
        replayed = {o["metadata"]["name"]: o for o in then}
        for change in s.history(PODS, revision):
            if change.type == "DELETED":
                del replayed[change.object["metadata"]["name"]]
            else:
                replayed[change.object["metadata"]["name"]] = change.object
        assert [replayed[name] for name in sorted(replayed)] == s.list(PODS)
        assert s.list_at(PODS, "shop", revision) == then


LABELS = {"app": "web", "tier": "edge", "n": "5"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app = web , tier=edge", True),
        ("app=api", False),
        ("app!=web", False),
        ("app!=api", True),
        ("gone!=x", True),
        ("app", True),
        ("gone", False),
        ("!gone", True),
        ("!app", False),
        ("app in (web, api)", True),
        ("app in (api)", False),
        ("app notin (api)", True),
        ("gone notin (x)", True),
        ("app notin (web,api),tier", False),
        ("app in (web),tier notin (cloud),!gone,n>4", True),
        ("n>5", False),
        ("n<6", True),
        ("app>1", False),
        ("gone=", False),
        ("in=x", False),
    ],
)
def test_labels(text, matches):
    assert parse_labels(text).matches(LABELS) is matches


@pytest.mark.parametrize(
    "text",
    ["a=b,", ",", "a in", "a in (b", "a b", "=b", "a>x", "a=b=c", "-a", "a=" + "x" * 64, "(a)"],
)
def test_what_is_no_label_selector(text):
    with pytest.raises(SelectorError):
        parse_labels(text)
    with pytest.raises(ApiError) as refused:
        selection(PODS, "", text, "")
    assert refused.value.status == 400


def test_a_selector_object_means_what_its_text_means():
    selector = label_selector_of(
        {
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["edge", "cloud"]},
                {"key": "gone", "operator": "DoesNotExist"},
                {"key": "n", "operator": "Exists"},
                {"key": "v", "operator": "NotIn", "values": ["1"]},
            ],
        }
    )
    assert str(selector) == "app=web,!gone,n,tier in (cloud,edge),v notin (1)"
    assert parse_labels(str(selector)) == selector
    assert selector.matches(LABELS)
    assert not selector.matches({**LABELS, "v": "1"})


def test_fields_of_other_kinds():
    node = {"metadata": {"name": "n2"}, "spec": {"unschedulable": True}}
    assert selection(NODES, "", "", "spec.unschedulable=true").matches(node)
    assert selection(NODES, "", "", "spec.unschedulable=false").matches({**node, "spec": {}})
    event = {"metadata": {}, "involvedObject": {"name": "a", "uid": "1"}, "type": "Warning"}
    wanted = "involvedObject.name=a,involvedObject.uid=1,type=Warning,reason!=x"
    assert selection(EVENTS, "", "", wanted).matches(event)
    terminating = {"metadata": {}, "status": {"phase": "Terminating"}}
    assert selection(NAMESPACES, "", "", "status.phase=Terminating").matches(terminating)


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
