"""Which entry of `services` speaks for a workload: the most specific one that says anything."""

import pytest

from kubedsm.config.settings import load
from kubedsm.model.model import Workload

GIVEN = load(
    """
services:
  "*": {qos: 0.9, mode: recreate}
  "*/cart": {qos: 0.4, weight: 4}
  shop/*: {qos: 0.6, weight: 6}
  shop/cart: {weight: 8}
  shop/video: {latencyTarget: 50ms, mode: "off"}
latency: {edge: 20ms, cloud: 80ms}
""",
    "test",
)


@pytest.mark.parametrize(
    ("name", "qos", "weight", "mode"),
    [
        ("shop/cart", 0.6, 8, "recreate"),
        ("shop/video", 0.5, 6, "off"),
        ("shop/other", 0.6, 6, "recreate"),
        ("mall/cart", 0.4, 4, "recreate"),
        ("mall/other", 0.9, 1, "recreate"),
        ("shopping/other", 0.9, 1, "recreate"),
    ],
)
def test_each_thing_is_said_by_the_most_specific_entry(name, qos, weight, mode):
    namespace, _, name = name.partition("/")
    workload = Workload(namespace, "Deployment", name)
    promise = GIVEN.promise(workload)
    assert (promise.qos, promise.weight) == (pytest.approx(qos), weight)
    assert GIVEN.migration_mode(workload) == mode


def test_a_share_and_a_latency_target_are_one_thing():
    given = load("services: {'*': {latencyTarget: 80ms}, shop/*: {qos: 0.3}}", "test")
    assert given.promise(Workload("shop", "Deployment", "a")).qos == 0.3
    assert given.promise(Workload("mall", "Deployment", "a")).qos == 0


def test_of_any_number_of_workloads_each_gets_its_own():
    for number in range(10_000):
        share = GIVEN.promise(
            Workload("shop" if number % 2 else "mall", "Deployment", f"w{number}")
        )
        assert share.qos == (0.6 if number % 2 else 0.9)
    assert len(GIVEN._known) <= 4096
