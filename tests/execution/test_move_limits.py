"""How many moves may be under way, where, and how long a workload rests."""

import attrs
import pytest

from kubedsm.config.current import CurrentConfiguration
from kubedsm.config.sections import MigrationSettings
from kubedsm.config.settings import Configuration
from kubedsm.execution.limits import BACK_OFF, MoveLimits, Underway
from kubedsm.model.model import Workload

WEB, API = (Workload("shop", "Deployment", name) for name in ("web", "api"))
WIDE = MigrationSettings(max_concurrent=9, max_per_node=9, max_per_workload=9)


def underway(workload, source, target, *, breaks_first=False):
    return Underway(workload, source, target, since=0.0, breaks_first=breaks_first)


def limits(**narrow):
    return limits_of(attrs.evolve(WIDE, **narrow))


def limits_of(migration):
    return MoveLimits(CurrentConfiguration(Configuration(migration=migration)))


@pytest.mark.parametrize(
    "other",
    [
        underway(API, "c1", "e2"),
        underway(API, "c2", "e1"),
        underway(API, "e1", "c2"),
        underway(API, "e2", "c1"),
    ],
    ids=["same source", "same target", "its target is the source", "its source is the target"],
)
def test_a_nodes_limit_counts_moves_from_it_and_to_it(other):
    made = limits(max_per_node=1)
    assert made.admit("one", underway(WEB, "c1", "e1"))
    assert not made.admit("other", other)
    assert made.admit("elsewhere", underway(API, "c2", "e2"))
    made.remove("elsewhere")
    made.remove("one")
    assert made.admit("other", other)


@pytest.mark.parametrize(
    ("narrow", "other"),
    [({"max_concurrent": 1}, API), ({"max_per_workload": 1}, WEB)],
    ids=["in all", "of a workload"],
)
def test_a_move_too_many_waits_until_another_is_over(narrow, other):
    made = limits(**narrow)
    assert made.admit("one", underway(WEB, "c1", "e1"))
    assert not made.admit("other", underway(other, "c2", "e2"))
    made.remove("one")
    assert made.admit("other", underway(other, "c2", "e2"))


@pytest.mark.parametrize("breaks", [(True, False), (False, True), (True, True)])
def test_a_move_that_breaks_first_goes_alone_in_its_workload(breaks):
    made = limits()
    first, second = breaks
    assert made.admit("one", underway(WEB, "c1", "e1", breaks_first=first))
    assert not made.admit("other", underway(WEB, "c2", "e2", breaks_first=second))
    assert made.admit("another's", underway(API, "c2", "e2", breaks_first=True))


def test_a_workload_rests_for_its_cooldown_and_longer_after_a_failure():
    made = limits(cooldown=60.0)
    made.begin_cooldown(WEB, 100.0, failed=False)
    assert WEB in made.resting(159.9)
    assert WEB not in made.resting(160.0)
    assert API not in made.resting(100.0)
    made.begin_cooldown(WEB, 200.0, failed=True)
    assert WEB in made.resting(259.9 + BACK_OFF.first)
    assert WEB not in made.resting(260.0 + BACK_OFF.first)


def test_workloads_that_rested_long_ago_are_forgotten():
    limits = limits_of(MigrationSettings(cooldown=1.0))
    for number in range(1000):
        limits.begin_cooldown(
            Workload("shop", "Deployment", f"w{number}"), now=10.0 * number, failed=True
        )
    assert len(limits._rests) < 100
    assert len(limits._failures) < 100


def test_a_workload_that_fails_again_and_again_rests_longer_each_time():
    made = limits(cooldown=60.0)
    for failures in range(3):
        now = 200.0 * failures
        made.begin_cooldown(WEB, now, failed=True)
        assert WEB in made.resting(now + 59.9 + BACK_OFF.delay_after(failures))
        assert WEB not in made.resting(now + 60.0 + BACK_OFF.delay_after(failures))
    made.begin_cooldown(WEB, 600.0, failed=False)
    made.begin_cooldown(WEB, 700.0, failed=True)
    assert WEB not in made.resting(760.0 + BACK_OFF.first)


def test_moves_that_have_become_slow_count_in_their_own_namespace_only():
    made = limits(max_concurrent=2, deadline=60.0)
    other = Workload("bank", "Deployment", "api")
    for number in range(2):
        assert made.admit(f"slow-{number}", underway(WEB, "c1", "e1"))
    assert not made.admit("too soon", Underway(other, "c2", "e2", since=59.0))
    assert made.admit("another's", Underway(other, "c2", "e2", since=61.0))
    assert not made.admit("its own", Underway(API, "c2", "e2", since=61.0))


def test_a_move_whose_old_pod_is_slow_to_go_counts_in_its_own_namespace_only():
    made = limits(max_concurrent=1)
    assert made.admit("one", underway(WEB, "c1", "e1"))
    made.mark_slow("one", at=3.0)
    other = Workload("bank", "Deployment", "web")
    assert not made.admit("soon", attrs.evolve(underway(other, "c2", "e2"), since=2.0))
    assert not made.admit("same", attrs.evolve(underway(API, "c2", "e2"), since=3.0))
    assert made.admit("other", attrs.evolve(underway(other, "c2", "e2"), since=3.0))
