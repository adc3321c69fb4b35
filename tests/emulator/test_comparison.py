"""The contract test can fail: every compared field, changed in a recorded answer, is noticed."""

import copy
from typing import Any

import pytest

from support.comparison import compare
from support.correspondence import Correspondence
from support.transcripts import load
from support.watches import compare_watches

EXCHANGES = load()

#: exchange, where in its response, what to put there (None: remove it)
CHANGES: list[tuple[int, tuple[Any, ...], Any]] = [
    (0, ("gitVersion",), "v1.30.0"),
    (3, ("resources", 2, "shortNames"), ["conf"]),
    (4, ("resources",), []),
    (8, (), "not ok"),
    (11, ("items",), []),
    (12, ("metadata", "labels", "nodetype"), "cloud"),
    (14, ("metadata", "continue"), None),
    (16, ("metadata", "annotations"), {"a": "b"}),
    (16, ("spec", "schedulerName"), "default-scheduler"),
    (17, ("reason",), "Conflict"),
    (17, ("code",), 410),
    (18, ("details", "causes", 0, "field"), "metadata"),
    (26, ("spec", "nodeName"), "n3"),
    (26, ("status", "phase"), "Pending"),
    (26, ("status", "conditions", 2, "status"), "False"),
    (37, ("metadata", "deletionTimestamp"), None),
    (53, ("items", 0, "metadata", "ownerReferences"), []),
    (53, ("items", 0, "metadata", "labels", "app"), "other"),
    (53, ("items", 0, "metadata", "name"), "web-5b576d85cf-aeiou"),
    (57, ("status", "disruptionsAllowed"), 2),
    (73, ("spec", "replicas"), 3),
    (83, ("status", "replicas"), 3),
    (84, ("items", 0, "spec", "nodeName"), "n5"),
    (106, ("status", "used", "pods"), "5"),
    (120, ("metadata", "name"), "a"),
    (123, ("status", "conditions", 0, "reason"), "Scheduled"),
]


def changed(response: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    response = copy.deepcopy(response)
    parent = response
    for step in path[:-1]:
        parent = parent[step]
    if value is None:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return response


@pytest.mark.parametrize(("index", "path", "value"), CHANGES, ids=lambda v: str(v)[:40])
def test_a_changed_answer_is_noticed(index: int, path: tuple[Any, ...], value: Any) -> None:
    exchange = EXCHANGES[index]
    wrong = changed(exchange.response, path, value)
    assert compare(exchange.response, wrong, exchange.body, Correspondence())


WATCHES = [e for e in EXCHANGES if e.events and e.status == 200]


@pytest.mark.parametrize("exchange", WATCHES, ids=lambda e: str(e.index))
def test_a_watch_agrees_with_itself_and_not_with_less(exchange: Any) -> None:
    events = exchange.events
    assert compare_watches(events, copy.deepcopy(events), Correspondence()) == []
    assert compare_watches(events, events[:-1], Correspondence())


def test_a_name_is_learnt_once_and_used_in_requests() -> None:
    recorded = EXCHANGES[53].response["items"][0]
    ours = copy.deepcopy(recorded)
    ours["metadata"] |= {"name": "web-7c9dddd-zzzzz", "uid": "ours", "resourceVersion": "7"}
    ours["metadata"]["labels"]["pod-template-hash"] = "7c9dddd"
    known = Correspondence()
    known.learn(recorded, ours)

    path = known.path("/api/v1/namespaces/t1795168200/pods/web-5b576d85cf-b498l/binding")
    assert path.endswith("/pods/web-7c9dddd-zzzzz/binding")
    body = {"metadata": {"name": "web-5b576d85cf", "resourceVersion": "41881"}, "n": 1}
    assert known.translate(body) == {
        "metadata": {"name": "web-7c9dddd", "resourceVersion": "7"},
        "n": 1,
    }
