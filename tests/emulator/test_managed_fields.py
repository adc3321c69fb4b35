"""The algebra of sets of fields and of apply, whatever the objects are."""

import random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.list_types import fields_of
from kubedsm_lab.emulator.api.managed_fields.applying import Apply, applied
from kubedsm_lab.emulator.api.managed_fields.field_sets import (
    comparison,
    field_set,
    format_tree,
    merged,
    parse_tree,
)
from kubedsm_lab.emulator.api.managed_fields.tracking import (
    Entries,
    Write,
    decode_entries,
    entries_of,
    format_entries,
)
from kubedsm_lab.emulator.api.resources import PODS, Object
from support.examples import examples
from support.fixed_clock import FixedClock

NOW = "2026-01-01T00:00:00Z"
STEPS = st.sampled_from(
    ["f:a", "f:b", 'k:{"name":"x"}', 'k:{"port":80,"protocol":"TCP"}', 'k:{"port":9}', 'v:"z"']
)


def _node(below: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A field that is in the set, or is not but has some below it that are."""
    inside = st.dictionaries(STEPS, below, min_size=1, max_size=3)
    return inside | inside.map(lambda steps: {".": {}, **steps})


SETS = st.dictionaries(STEPS, st.recursive(st.just({}), _node, max_leaves=6), max_size=3)
#: of a pod: one of each kind of list, and an atomic object
VALUES = st.sampled_from(["1", "2"])
CONTAINERS = st.dictionaries(
    st.sampled_from("cde"),
    st.fixed_dictionaries(
        {"image": VALUES},
        optional={
            "env": st.dictionaries(st.sampled_from("AB"), VALUES, max_size=2).map(
                lambda env: [{"name": name, "value": value} for name, value in env.items()]
            ),
            "args": st.lists(VALUES, max_size=2),
        },
    ),
    max_size=2,
).map(lambda named: [{"name": name, **rest} for name, rest in named.items()])
CONFIGS = st.builds(
    lambda metadata, spec: {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
    st.fixed_dictionaries(
        {"name": st.just("p")},
        optional={
            "labels": st.dictionaries(st.sampled_from("lm"), VALUES, max_size=2),
            "finalizers": st.lists(st.sampled_from(["x/f", "x/g"]), unique=True, max_size=2),
        },
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "containers": CONTAINERS,
            "nodeSelector": st.dictionaries(st.sampled_from("no"), VALUES, max_size=2),
            "schedulerName": VALUES,
        },
    ),
)
HOW = fields_of(PODS)
#: they go with the last that is in them, whoever said that there is such an object
OBJECTS = {("f:metadata",), ("f:spec",), ("f:metadata", "f:labels"), ("f:spec", "f:nodeSelector")}


def part_of(config: Object) -> Object:
    metadata = {key: value for key, value in config["metadata"].items() if key != "name"}
    return {"metadata": metadata, "spec": config["spec"]}


@given(SETS)
def test_a_set_reads_as_it_was_written(tree: Any) -> None:
    written = format_tree(parse_tree(tree))
    assert written == tree
    entry = {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    entries = decode_entries([{**entry, "manager": "m", "fieldsV1": tree}])
    assert entries is not None
    assert orjson.dumps(format_entries(entries)[0]["fieldsV1"]) == orjson.dumps(written)


@given(SETS)
def test_a_set_is_written_in_one_order_whatever_it_was_sent_in(tree: Any) -> None:
    def turned(tree: Any) -> Any:
        return {step: turned(tree[step]) for step in reversed(tree)}

    assert orjson.dumps(format_tree(parse_tree(turned(tree)))) == orjson.dumps(
        format_tree(parse_tree(tree))
    )


@examples(60)
@given(CONFIGS, CONFIGS)
def test_what_is_laid_over_is_there(live: Object, config: Object) -> None:
    below, above = part_of(live), part_of(config)
    result = merged(below, above, HOW)
    assert merged(result, above, HOW) == result
    assert merged(below, below, HOW) == below
    change = comparison(below, result, HOW)
    # Nothing goes, and only what was applied is different.
    assert all(path[:2] == ("f:spec", "f:nodeSelector") for path in change.removed)
    applied_alone = comparison({"metadata": {}, "spec": {}}, above, HOW).added
    touched = change.modified | change.added
    assert touched - {("f:spec",)} <= applied_alone | field_set(above, HOW)


class Managers:
    """Several that apply to one object, without a server around it."""

    def __init__(self) -> None:
        self.part: Object = {"metadata": {}, "spec": {}}
        self.entries: Entries = {}
        self.there = False

    def apply(self, name: str, config: Object, *, force: bool = True) -> None:
        apply = Apply(config, Write(name, NOW), force=force)
        live = self.part if self.there else None
        done = applied(PODS, live, self.entries, apply)
        self.part, self.entries, self.there = done.part, done.entries, True

    def fields(self, name: str) -> set[tuple[str, ...]]:
        return {
            path
            for manager, entry in self.entries.items()
            if manager.name == name
            for path in entry.fields
        }


def wanted(config: Object) -> frozenset[tuple[str, ...]]:
    return field_set(part_of(config), HOW) - {("f:metadata",)}


@examples(60)
@given(CONFIGS, CONFIGS)
def test_applying_twice_is_applying_once(first: Object, second: Object) -> None:
    managers = Managers()
    managers.apply("one", first)
    managers.apply("two", second)
    once = managers.part, managers.entries
    managers.apply("two", second, force=False)
    assert (managers.part, managers.entries) == once


@examples(60)
@given(CONFIGS, CONFIGS)
def test_force_takes_all_of_it_and_nothing_else(first: Object, second: Object) -> None:
    managers = Managers()
    managers.apply("one", first)
    before = managers.part
    managers.apply("two", second)
    assert managers.fields("two") == wanted(second)
    change = comparison(before, managers.part, HOW)
    taken = change.modified | change.added | change.removed
    assert managers.fields("one") == wanted(first) - taken


@examples(60)
@given(CONFIGS, CONFIGS)
def test_without_force_it_is_refused_or_changes_nothing_of_others(
    first: Object, second: Object
) -> None:
    managers = Managers()
    managers.apply("one", first)
    before = managers.part
    try:
        managers.apply("two", second, force=False)
    except ApiError as error:
        causes = error.body()["details"]["causes"]
        assert {cause["message"] for cause in causes} == {'conflict with "one"'}
        assert managers.part is before
    else:
        assert managers.fields("one") == wanted(first)
        assert managers.fields("two") == wanted(second)


@examples(60)
@given(CONFIGS, CONFIGS)
def test_what_one_gives_up_and_nobody_else_has_goes(first: Object, second: Object) -> None:
    managers = Managers()
    managers.apply("one", first)
    managers.apply("one", second)
    assert managers.fields("one") == wanted(second)
    left = field_set(managers.part, HOW)
    assert left - OBJECTS == wanted(second) - OBJECTS


@examples(60)
@given(CONFIGS, CONFIGS)
def test_what_another_one_has_too_stays(first: Object, second: Object) -> None:
    managers = Managers()
    managers.apply("one", first)
    try:
        managers.apply("two", second, force=False)
    except ApiError:
        return
    empty = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    managers.apply("one", empty)
    assert managers.fields("one") == set()
    assert field_set(managers.part, HOW) - OBJECTS == wanted(second) - OBJECTS


def test_entries_are_worked_out_from_all_writes_since_they_were() -> None:
    """However many writes pass unseen, what is shown is what each of them did."""
    looking, blind = (
        ApiServer(FixedClock(), random.Random(0)),
        ApiServer(FixedClock(), random.Random(0)),
    )
    spec = {"containers": [{"name": "c", "image": "i"}]}
    for api in (looking, blind):
        api.create(
            PODS, {"metadata": {"name": "p"}, "spec": spec}, namespace="default", manager="kubectl"
        )
        for turn in range(20):
            patch = {"metadata": {"labels": {f"k{turn % 3}": str(turn)}}}
            api.patch(
                PODS, "default", "p", patch, "application/merge-patch+json", manager=f"m{turn % 2}"
            )
            if api is looking:
                entries_of(api.get(PODS, "default", "p"))
    seen, unseen = (
        format_entries(entries_of(api.get(PODS, "default", "p"))) for api in (looking, blind)
    )
    assert seen == unseen
    assert [entry["manager"] for entry in seen] == ["kubectl", "m0", "m1"]
    owned = [set(entry["fieldsV1"]["f:metadata"]["f:labels"]) - {"."} for entry in seen[1:]]
    # turns 17, 18 and 19 wrote last
    assert owned == [{"f:k0"}, {"f:k1", "f:k2"}]


def test_where_managers_are_not_tracked_there_are_none_until_somebody_applies() -> None:
    api = ApiServer(FixedClock(), random.Random(0), tracks_managers=False)
    sent = {"name": "p", "managedFields": [{"manager": "me", "operation": "Update"}]}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    created = api.create(PODS, {"metadata": sent, "spec": spec}, namespace="default")
    assert "managedFields" not in created["metadata"]
    label = {"metadata": {"labels": {"a": "b"}}}
    labelled = api.patch(PODS, "default", "p", label, "application/merge-patch+json")
    assert "managedFields" not in labelled["metadata"]
    config = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"c": "d"}}}
    of_apply = "application/apply-patch+yaml"
    done = api.patch(PODS, "default", "p", config, of_apply, manager="me")
    owners = [entry["manager"] for entry in format_entries(entries_of(done))]
    assert owners == ["me", "before-first-apply"]


@pytest.mark.parametrize("sent", [[], [{}]])
def test_managers_are_forgotten_and_everything_is_somebodys_before_the_first_apply(
    sent: list[Any],
) -> None:
    api = ApiServer(FixedClock(), random.Random(0))
    spec = {"containers": [{"name": "c", "image": "i"}]}
    api.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, namespace="default")
    merge = "application/merge-patch+json"
    reset = {"metadata": {"managedFields": sent}}
    assert "managedFields" not in api.patch(PODS, "default", "p", reset, merge)["metadata"]
    labelled = api.patch(PODS, "default", "p", {"metadata": {"labels": {"a": "b"}}}, merge)
    assert entries_of(labelled) == {}
    config = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "c"}}}
    with pytest.raises(ApiError, match='conflict with "before-first-apply" using v1') as refused:
        api.patch(PODS, "default", "p", config, "application/apply-patch+yaml", manager="me")
    assert refused.value.status == 409
