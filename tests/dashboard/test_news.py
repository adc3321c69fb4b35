"""What is news, in words: decisions, Events, and what is in another state."""

import pytest

from kubedsm.dashboard.state.news import WrittenEvent, news_of_decisions, news_of_events
from kubedsm.explain.decision_record import Entry, Kind
from kubedsm.explain.facts import PodChoice
from kubedsm.kube.calls.writes import Regarding
from kubedsm.model.model import NodeName, Tier, Uid


def choice(name, node=None, tier=None, message=""):
    return PodChoice(f"shop/{name}", node and NodeName(node), tier, message, Uid(name))


def batch(number, *choices):
    return Entry(number, float(number), Kind.BATCH, 0.0, 0.0, True, pods=choices)


EDGE, CLOUD = choice("a", "e1", Tier.EDGE), choice("b", "c1", Tier.CLOUD)
LOST = choice("c", message="0/2 nodes are available.")
DECIDED = {
    "one pod": ([batch(1, EDGE)], [("scheduled shop/a to e1", "shop/a", 1, False)]),
    "several": (
        [batch(1, EDGE, CLOUD)],
        [("scheduled 2 new pods, 1 to the edge and 1 to the cloud", "", 1, False)],
    ),
    "none": (
        [batch(1, LOST)],
        [("no node is feasible for shop/c: 0/2 nodes are available.", "shop/c", 1, True)],
    ),
    "some": (
        [batch(1, EDGE, LOST)],
        [
            (
                "scheduled shop/a to e1; no node is feasible for shop/c: 0/2 nodes are available.",
                "",
                1,
                True,
            )
        ],
    ),
    "a few batches": (
        [batch(1, EDGE), batch(2, CLOUD)],
        [
            ("scheduled shop/a to e1", "shop/a", 1, False),
            ("scheduled shop/b to c1", "shop/b", 2, False),
        ],
    ),
    "many batches, as one": (
        [batch(number, EDGE) for number in range(1, 5)],
        [("scheduled 4 new pods to the edge", "", 4, False)],
    ),
}


@pytest.mark.parametrize(("entries", "said"), DECIDED.values(), ids=DECIDED)
def test_decisions_are_told(entries, said):
    rows = news_of_decisions(entries, {})
    assert [(row.text, row.pod, row.decision, row.warning) for row in rows] == said


def event(name, kind="Pod", version="v1"):
    return WrittenEvent(
        1.0, Regarding(version, kind, "shop", name, name), "Gone", f"{name} left", True
    )


def test_events_are_told_one_by_one_and_many_as_one():
    few = list(news_of_events([event("a"), event("cart", "Deployment", "apps/v1")]))
    assert [(row.text, row.pod, row.workload) for row in few] == [
        ("Gone: a left", "shop/a", ""),
        ("Gone: cart left", "", "shop/cart"),
    ]
    [row] = news_of_events([event(str(number)) for number in range(9)])
    assert (row.text, row.pod, row.warning) == ("Gone of 9 Pods, the last: 8 left", "", True)
