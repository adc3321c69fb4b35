"""Two twin services on an edge that holds half of them, whose loads change places, or do not."""

import attrs

from kubedsm_lab.emulator.emulated_cluster import ClusterSpec
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.services import ServiceSpec
from kubedsm_lab.replay.sources import Source
from kubedsm_lab.replay.world import Setup
from loadgen.generators import served

#: the pods of one service while the other has the other number
OSCILLATIONS = {"osc": (20, 26), "osc2": (22, 24), "const": (24, 24)}
_CYCLES, _CYCLE_SECONDS = 12, 90.0
_NODES = (("e1", "edge", "3", "8Gi"), ("e2", "edge", "3", "8Gi"), ("c1", "cloud", "100", "200Gi"))


def oscillation(name: str, setup: Setup) -> tuple[Source, Setup]:
    """Of that name: its scenario, the same for all seeds, and the cluster and services it is on."""
    few, many = OSCILLATIONS[name]
    turns = {"x": (few, many), "y": (many, few)}
    replicas = {service: turn * (_CYCLES // 2) for service, turn in turns.items()}
    scenario = served(replicas, _CYCLE_SECONDS, "http://{service}/")
    services = tuple(
        ServiceSpec(service, "250m", "256Mi", replicas=(1, 60)) for service in replicas
    )
    cluster = ClusterSpec(tuple(node(*each) for each in _NODES), setup.cluster.timing)
    contended = attrs.evolve(setup, cluster=cluster, services=services)
    return Source(name, name, lambda _seed: scenario), contended
