"""What both schedulers are compared by."""

import pytest

from kubedsm.model.model import Tier
from kubedsm_lab.demo.frame import Standing, until
from kubedsm_lab.replay.timeline import Life, Timeline

PROMISES = {"a": 0.5, "b": 1.0}
#: half of `a` is at the edge all the time, all of `b` until 4 s of 10
TIMELINE = Timeline(
    10.0,
    (
        Life("a", 0.0, 0.0, Tier.EDGE, ((0.0, 10.0),)),
        Life("a", 0.0, 0.0, Tier.CLOUD, ((0.0, 10.0),)),
        Life("b", 0.0, 0.0, Tier.EDGE, ((0.0, 4.0),)),
        Life("b", 4.0, 4.0, Tier.CLOUD, ((4.0, 10.0),)),
    ),
    {"a": (), "b": ()},
)


def test_shares_and_promises_kept_are_means_over_time():
    standing = Standing.of(TIMELINE, PROMISES)
    assert standing.shares == pytest.approx({"a": 0.5, "b": 0.4})
    assert standing.edge_share == pytest.approx(0.45)
    assert standing.kept == pytest.approx((10 + 4) / 20)


def test_what_comes_later_does_not_count():
    standing = Standing.of(until(TIMELINE, 4.0), PROMISES)
    assert (standing.edge_share, standing.kept) == (0.75, 1.0)
    assert Standing.of(until(TIMELINE, 0.0), PROMISES).edge_share is None
