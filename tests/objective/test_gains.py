"""Benefits of migrations: QoS gained, and for how long it lasts."""

from collections import Counter
from itertools import product

import numpy as np
import pytest

from kubedsm.model.model import Share, Tier, Workload
from kubedsm.objective.gains import Gains, Worths, less_price, net, rank_gains
from kubedsm.objective.lasting import ASSUMED, FARTHEST, QuietPeriods, end_period
from kubedsm.objective.objective import (
    EVENNESS,
    Objective,
    Prospect,
    QosTarget,
    scores_and_unevenness,
)
from kubedsm.optimizer.moving.suggest import suggest
from kubedsm.optimizer.moving.suggestion import SuggestLimits
from support.placement_instances import node, resources, snapshot
from support.suggest_instances import running

X, Y = (Workload("shop", "Deployment", name) for name in "xy")


@pytest.mark.parametrize("total", [3, 7, 24, 97])
def test_of_as_many_pods_those_that_make_shares_even_are_worth_more(total):
    shares = {X: Share(total // 3, total), Y: Share(0, total)}
    gains = Gains(shares, lambda _: QosTarget(), Objective())
    worths = Worths(gains, lambda _: 60.0)
    for pods in range(1, total // 3 + 1):
        by_worth = {
            worths.of_changes({X: more, Y: pods - more})[0]: more for more in range(pods + 1)
        }
        assert by_worth[max(by_worth)] == 0
        assert list(dict(sorted(by_worth.items())).values()) == sorted(range(pods + 1))[::-1]


def test_a_pod_more_is_worth_more_than_any_evenness():
    for totals in product((9, 10, 30, 31, 100), repeat=2):
        shares = dict(zip((X, Y), (Share(n // 2, n) for n in totals), strict=True))
        gains = Gains(shares, lambda _: QosTarget(), Objective())
        worths = Worths(gains, lambda _: 60.0)
        changes = [{X: a, Y: b} for a, b in product(range(-3, 4), repeat=2)]
        for one, other in product(changes, repeat=2):
            if gains.of_changes(one)[0] > gains.of_changes(other)[0] + 4:
                assert worths.of_changes(one) > worths.of_changes(other)


@pytest.mark.parametrize(("slots", "moved"), [(1, {"y": 1}), (3, {"y": 3}), (5, {"y": 4, "x": 1})])
def test_room_that_comes_free_goes_to_the_one_with_the_lower_share(slots, moved):
    pods = [running(f"x-{i}", "x", resources(1), "e1" if i < 4 else "c1") for i in range(6)]
    pods += [running(f"y-{i}", "y", resources(1), "e1" if i < 1 else "c1") for i in range(6)]
    nodes = [node("e1", Tier.EDGE, 5 + slots, 64), node("c1", Tier.CLOUD, 64, 64)]
    limits = SuggestLimits(price=1.0)
    found = suggest(snapshot(nodes, pods), lambda _: QosTarget(), Objective(), limits)
    assert Counter(move.pod.workload.name for move in found.moves) == moved


def test_unevenness_is_the_square_of_the_share_as_far_as_shares_add_to_the_score():
    prospects = [
        Prospect(np.arange(5), 4, QosTarget(0.5)),
        Prospect(np.arange(3), 2, QosTarget(weight=2.0)),
    ]
    _, uneven = scores_and_unevenness(Objective(beta=0.0), prospects)
    # together 1/4 + 2
    half, whole = ([0, 1 / 16, 1 / 4, 1 / 4, 1 / 4], [0, 1 / 2, 2])
    for found, squares in zip(uneven, (half, whole), strict=True):
        assert found == pytest.approx([EVENNESS / 2.25 * each for each in squares], abs=1)


def test_ranks_compare_as_gains_do_from_the_highest_level_on():
    gains = np.array([[0, 5], [1, -9], [0, 5], [0, -1], [1, 3]])
    for given in (gains, gains[:, 1:]):
        ranks, rows = rank_gains(given).tolist(), list(map(tuple, given.tolist()))
        for one, other in product(range(len(rows)), repeat=2):
            assert (ranks[one] > ranks[other]) == (rows[one] > rows[other])


def test_a_price_is_paid_at_the_highest_level_that_changes():
    worths, left = [(0, 5, 3), (2, 0, 0), (0, 0, 0)], [(0, 3, 3), (0, 0, 0), (-2, 0, 0)]
    assert [net(worth, 2) for worth in worths] == left
    assert less_price(np.array(worths), np.array([2, 2, 2])).tolist() == list(map(list, left))


def after(*moments):
    """A workload that changed at these moments."""
    first, *later = moments
    periods = QuietPeriods(first)
    for moment in later:
        periods = end_period(periods, moment)
    return periods


def test_of_a_new_workload_a_minute_is_assumed_and_as_long_again_as_it_has_been_quiet():
    assert after(0.0).lasting(0.0) == ASSUMED
    assert after(0.0).lasting(240.0) == ASSUMED + 240.0


def test_what_always_stayed_for_so_long_is_expected_to_stay_for_the_rest_of_that():
    periods = after(*(90.0 * n for n in range(20)))
    now = periods.since
    for age in (0.0, 3.0, 30.0, 60.0):
        assert periods.lasting(now + age) == pytest.approx(90.0 - age, rel=0.2)
    assert after(*(10.0 * n for n in range(20))).lasting(190.0) < 20.0


def test_after_a_change_in_a_cluster_the_next_is_near_and_once_it_is_over_far():
    steps = [start + step for start in range(0, 1000, 100) for step in (0.0, 5.0, 10.0)]
    periods = after(*(float(step) for step in steps))
    within, over = periods.lasting(periods.since + 1.0), periods.lasting(periods.since + 12.0)
    assert within < 45.0
    assert over == pytest.approx(90.0 - 12.0, rel=0.2)
    assert over > 1.7 * within


def test_longer_quiet_than_ever_before_is_expected_to_go_on():
    periods = after(*(10.0 * n for n in range(20)))
    assert periods.lasting(periods.since + 100.0) > 100.0


def test_changes_within_a_second_are_one():
    periods = after(0.0, 90.0, 90.2, 90.4, 90.6)
    assert periods.lengths == (90.0,)
    assert periods.since == 90.6


def test_what_changes_now_counts_more_than_what_did_long_ago():
    slow, fast = [300.0 * n for n in range(8)], [2100.0 + 10.0 * n for n in range(1, 9)]
    assert after(*slow).lasting(2100.0) > 200.0
    assert after(*slow, *fast).lasting(2180.0) < 80.0


def test_little_is_remembered_and_nothing_is_expected_for_ever():
    periods = after(*(float(2 * n) for n in range(1000)))
    assert len(periods.lengths) <= 16
    assert after(0.0).lasting(1e9) == FARTHEST


def test_a_clock_that_goes_back_is_no_change_that_took_less_than_no_time():
    periods = after(100.0, 50.0)
    assert (periods.since, periods.lengths) == (100.0, ())
    assert periods.lasting(0.0) == ASSUMED
