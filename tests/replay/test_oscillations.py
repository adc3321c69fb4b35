"""Loads that change places: the gain of a migration does not last."""

import attrs
import pytest

from kubedsm_lab.emulator.emulated_cluster import ClusterSpec
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.runner import carry_out
from kubedsm_lab.replay.services import ServiceSpec
from kubedsm_lab.replay.world import Run, Setup
from loadgen.generators import serve_replicas

#: Replicas of one service while its twin has the other number: twice the capacity of the edge.
OSCILLATIONS = {"osc": (20, 26), "osc2": (22, 24)}
NODES = (("e1", "edge", "3", "8Gi"), ("e2", "edge", "3", "8Gi"), ("c1", "cloud", "100", "200Gi"))


def played(name, policy):
    few, many = OSCILLATIONS[name]
    replicas = {"x": (few, many) * 3, "y": (many, few) * 3}
    scenario = serve_replicas(replicas, 90.0, "http://{service}/")
    services = tuple(ServiceSpec(twin, "250m", "256Mi", replicas=(1, 60)) for twin in replicas)
    usual = Setup()
    cluster = ClusterSpec(tuple(node(*each) for each in NODES), usual.cluster.timing)
    setup = attrs.evolve(usual, cluster=cluster, services=services)
    return carry_out(Run(name, scenario, policy, 1, setup)).measures


@pytest.mark.parametrize("name", ["osc2"])
def test_moving_is_never_worse_than_not_to_move(name):
    moving, still = played(name, "kubedsm"), played(name, "no-migration")
    assert moving.edge_ratio >= still.edge_ratio
    assert moving.migrations <= 12
    assert still.migrations == 0


@pytest.mark.long
def test_at_no_price_it_is_with_many_moves():
    moving, still = played("osc", "migration.price=0s"), played("osc", "no-migration")
    assert moving.edge_ratio < still.edge_ratio
    assert moving.migrations > 100
