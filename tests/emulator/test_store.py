"""One revision a commit, changes in order, history as far back as it goes."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubedsm_lab.emulator.api.resources import CONFIGMAPS, PODS
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
