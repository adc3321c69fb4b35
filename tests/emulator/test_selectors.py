"""Which objects a selector picks, and which selectors are none."""

import pytest

from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.resources import EVENTS, NAMESPACES, NODES, PODS
from kubedsm_lab.emulator.api.selectors import (
    SelectorError,
    label_selector_of,
    parse_labels,
    selection,
)

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
