"""`kubedsm replay --preset sites`: city and demand, transportation by hand, optimum against
enumeration, and the tables.
"""

import itertools
import random

import msgspec
import numpy as np
import pytest

from kubedsm.model.model import Node, NodeName, Resources, Tier
from kubedsm_lab.replay.sites.city import City, group_stations
from kubedsm_lab.replay.sites.demand import (
    EDGE_CORES,
    EDGE_NODES,
    HOUR,
    LOAD,
    SERVICES,
    Demand,
    count_nodes,
)
from kubedsm_lab.replay.sites.experiment import TABLES, Tried
from kubedsm_lab.replay.sites.nearness import (
    Clairvoyant,
    Served,
    Stretch,
    count_overload,
    serve_requests,
    split_timeline,
)
from kubedsm_lab.replay.sites.trial import CONTENDERS, OURS, Trial, play
from kubedsm_lab.replay.tables import fill_sections
from kubedsm_lab.replay.timeline import Life, Timeline
from support.drawing import drawn_cases
from support.pods import made_pod

TWO_SITES = City(np.array([[0.0, 0.0], [100.0, 0.0]]), np.array([3, 1]))


def demand_of(*rates):
    """Return a demand with the given requests/s at two sites for the first services, all day."""
    whole = np.zeros((len(SERVICES), 2, 24))
    for service, at_sites in enumerate(rates):
        whole[service] = np.array(at_sites)[:, None]
    return Demand(TWO_SITES, whole)


def stretch_of(*pods, totals):
    whole, counts = np.zeros((len(SERVICES), 2), int), np.zeros(len(SERVICES), int)
    for service, (at_sites, total) in enumerate(zip(pods, totals, strict=True)):
        whole[service], counts[service] = at_sites, total
    return Stretch(1.0, 0, whole, counts)


@pytest.mark.parametrize("number", [5, 10, 20])
def test_every_station_and_user_belongs_to_a_site(number):
    city = group_stations(number)
    assert len(city.names) == number
    assert city.users.sum() == 816
    assert city.longitudes[0] == 0
    assert city.longitudes[-1] == 1
    assert sum(count_nodes(city.users)) == EDGE_NODES


def test_demand_is_a_multiple_of_the_edge_and_peaks_wander_eastwards():
    city = group_stations(5)
    demand = Demand.draw(city, 3.0, random.Random(1))
    cores = np.array([float(service.cpu[:-1]) / 1000 for service in SERVICES])
    used = (demand.rates.mean(axis=2).sum(axis=1) / 5 * cores).sum()
    assert used == pytest.approx(LOAD * EDGE_NODES * EDGE_CORES)
    by_hour = demand.rates[0]
    assert by_hour[0].argmax() == 0
    assert by_hour.max(axis=1) / by_hour.min(axis=1) == pytest.approx(3.0, rel=0.02)
    assert demand.by_site(HOUR + 1)["svc-00"]["s01"] == by_hour[0, 1]
    assert demand.scenario.rate("svc-00", 2.5 * HOUR) == pytest.approx(by_hour[:, 2].sum())


def test_pods_serve_their_own_site_first():
    # 8 requests/s and 4 pods: 2 each. Site 1 has 6 and 2 pods: 4 near. Site 2 has 2 and one pod.
    demand, stretch = demand_of((6.0, 2.0)), stretch_of((2, 1), totals=(4,))
    assert serve_requests(demand, stretch) == Served(6.0, 0.0, 2.0)
    # All pods at the wrong site: one serves it, the others serve the users far away.
    assert serve_requests(demand, stretch_of((0, 3), totals=(3,))) == Served(2.0, 6.0, 0.0)
    # No pods: all requests count as served by the cloud.
    assert serve_requests(demand, stretch_of((0, 0), totals=(0,))) == Served(0.0, 0.0, 8.0)


def test_one_pod_for_a_busy_site_is_overloaded_by_zone_routing():
    # 50 requests/s is the capacity of a pod
    demand = demand_of((60.0, 2.0))
    assert count_overload(demand, stretch_of((1, 9), totals=(10,))) == 60.0
    assert count_overload(demand, stretch_of((2, 8), totals=(10,))) == 0.0
    # Without pods at site 1 its requests are spread over ten.
    assert count_overload(demand, stretch_of((0, 10), totals=(10,))) == 0.0


def test_a_day_is_split_where_pods_or_demand_change():
    life = Life("svc-00", 0.0, 1.0, Tier.EDGE, ((10.0, HOUR + 10),), node=NodeName("e"))
    timeline = Timeline(HOUR + 80, (life,), {"svc-00": ((0.0, 1),)})
    found = list(split_timeline(timeline, {NodeName("e"): 1}, 2))
    assert [(each.seconds, each.hour, each.pods[0, 1]) for each in found] == [
        (10.0, 0, 0),
        (HOUR - 10, 0, 1),
        (10.0, 1, 1),
        (70.0, 1, 0),
    ]


@pytest.mark.parametrize("seed", drawn_cases(range(12)))
def test_the_optimum_is_that_of_all_placements(seed):
    """Two services of at most three pods on three nodes: every placement is tried."""
    rng = random.Random(seed)
    nodes = [
        Node(NodeName(f"n{index}"), {}, Resources(rng.choice([1000, 2000]), 2**33, 110))
        for index in range(3)
    ]
    site_of = {node.name: rng.randrange(2) for node in nodes}
    rates = [(rng.uniform(0, 9), rng.uniform(0.1, 9)) for _ in range(2)]
    totals = tuple(rng.randrange(1, 4) for _ in range(2))
    sizes = [rng.choice([500, 1000]) for _ in range(2)]
    samples = {
        service.name: made_pod(service.name, cpu=size)
        for service, size in itertools.zip_longest(SERVICES, sizes, fillvalue=1000)
    }
    demand = demand_of(*rates)
    best = most = 0.0
    for counts in itertools.product(range(4), repeat=6):
        placed = np.array(counts).reshape(2, 3)
        fits = all(
            (placed[:, index] * sizes).sum() <= node.allocatable.cpu
            for index, node in enumerate(nodes)
        )
        if fits and (placed.sum(axis=1) <= totals).all():
            pods = np.zeros((2, 2), int)
            for index, node in enumerate(nodes):
                pods[:, site_of[node.name]] += placed[:, index]
            served = serve_requests(demand, stretch_of(*pods, totals=totals))
            best, most = max(best, served.near), max(most, served.near + served.elsewhere)
    clairvoyant = Clairvoyant(demand, nodes, samples, site_of)
    stretch = stretch_of((0, 0), (0, 0), totals=totals)
    assert clairvoyant.bound(stretch) == pytest.approx(best, abs=0.02)
    assert clairvoyant.bound_edge(stretch) >= most - 1e-6


def test_trials_are_tabulated_and_play_the_same_twice(monkeypatch):
    """Six minutes with less load instead of a day: all contenders in one setting."""
    monkeypatch.setattr("kubedsm_lab.replay.sites.trial.HOURS", 0.1)
    monkeypatch.setattr("kubedsm_lab.replay.sites.demand.LOAD", LOAD / 4)
    outcomes = [play(Trial(5, 3.0, name, 1)) for name in CONTENDERS]
    assert play(outcomes[0].trial) == outcomes[0]
    for each in outcomes:
        assert 0 < each.near <= each.bound <= each.edge_bound <= 1
        assert each.best_ms <= each.response_ms
        assert each.near + each.elsewhere + each.cloud == pytest.approx(1, abs=1e-5)
        assert each.lost_pod_seconds == 0
    sections = fill_sections("sites", TABLES, Tried(outcomes))
    tables = {section.title: section.table for section in sections}
    headings, (row,) = tables["Requests served at their own site"]
    assert headings == ["", *CONTENDERS]
    assert row[0] == "5 sites, peak 3:1"
    assert row[1] == f"{outcomes[0].near:.3f}"
    seeds = [
        msgspec.structs.replace(each, trial=msgspec.structs.replace(each.trial, seed=seed))
        for each in outcomes
        for seed in (1, 2, 3)
    ]
    near = next(f"{each.near:.3f}" for each in outcomes if each.trial.contender == OURS)
    assert TABLES["At a glance"](Tried(seeds))[1][0][1] == f"{near} [{near}, {near}]"


def test_nodes_are_divided_by_users_with_one_for_each_site():
    # 24 nodes: one each, then 21 by largest quotient
    assert count_nodes(np.array([300, 110, 0])) == [17, 6, 1]
