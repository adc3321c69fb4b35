"""What is wrong, each in a sentence."""

from types import SimpleNamespace

import pytest

from kubedsm.dashboard.rows import NodeRow, PodRow, StatusRow
from kubedsm.dashboard.state.headline import Scenery
from kubedsm.dashboard.state.troubles import PATIENCE, troubles
from kubedsm.model.model import Tier

NOW = 1000.0
NODE = NodeRow(Tier.EDGE, 4000, 4_000_000_000, 110)
WAITS = PodRow("shop/cart", "waiting", NOW - PATIENCE - 1, message="Too many pods.")


def told(status=None, nodes=None, waiting=None, pause_unknown="", **reading):
    there = Scenery(nodes or {}, waiting or {}, {}, {})
    read = {"now": NOW, "watches": {}, "events_lost": 0, "caught": {}, **reading}
    switch = SimpleNamespace(config_map=SimpleNamespace(trouble=pause_unknown))
    runtime = SimpleNamespace(pause_switch=switch)
    return list(troubles(status or StatusRow(""), there, runtime, SimpleNamespace(**read), ()))


def node(state, site=""):
    return NodeRow(Tier.EDGE, 4000, 4_000_000_000, 110, site=site, state=state)


CASES = {
    "nothing": (told(nodes={"e1": NODE}), []),
    "what is as it should be": (
        told(nodes={"e1": node("cordoned"), "e2": node("settling", "north")}),
        [],
    ),
    "nodes": (
        told(nodes={"e2": node("not ready"), "e1": node("not ready"), "e3": node("unreachable")}),
        ["Node e3 is unreachable.", "2 nodes are not ready: e1, e2."],
    ),
    "a site": (
        told(nodes={name: node("cut off", "north") for name in ("e2", "e1")}),
        ["Site north is cut off (e1, e2): its pods are left alone."],
    ),
    "pods": (
        told(waiting={"shop/cart-a": WAITS, "shop/cart-b": WAITS}),
        ["shop/cart-a, and 1 pod more cannot be scheduled: Too many pods."],
    ),
    "pods that came a moment ago": (
        told(waiting={"shop/cart-a": PodRow("shop/cart", "waiting", NOW - 1, message="Full.")}),
        [],
    ),
    "an API server that is silent": (
        told(watches={"pods": SimpleNamespace(trouble="no answer for 20 s")}),
        ["The mirror of pods may be outdated: no answer for 20 s."],
    ),
    "a pause switch that cannot be read": (
        told(pause_unknown="forbidden"),
        ["The pause switch cannot be read, so no migration begins: forbidden."],
    ),
    "a slow loop": (
        told(StatusRow("", loop_lag=1000)),
        ["The scheduler is slow: its event loop was up to 1000 ms late."],
    ),
    "a loop that is about as slow as at a start": (told(StatusRow("", loop_lag=500)), []),
    "its own mistakes": (
        told(caught={"plans": 2, "event": 0}, events_lost=3),
        [
            "3 Events could not be written; see the log.",
            "Internal errors of the scheduler were caught, 2 in plans; see the log.",
        ],
    ),
}


@pytest.mark.parametrize(("said", "expected"), CASES.values(), ids=CASES)
def test_what_is_wrong_is_told(said, expected):
    assert said == expected
