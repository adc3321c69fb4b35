"""Published measurements of the papers, read from published.toml."""

from collections.abc import Mapping
from importlib.resources import files

import msgspec


class KubeDsm(msgspec.Struct, frozen=True, rename="kebab"):
    """Published measurements of the KubeDSM paper; comparable for its cluster and services only."""

    #: edge ratios by policy, in the order of PAPER_SCENARIOS
    edge_ratios: Mapping[str, tuple[float, ...]]
    #: edge shares of A, B, C and D by policy, in the same order
    shares: Mapping[str, tuple[tuple[float, float, float, float], ...]]
    #: edge ratios at VARIANT_SCENARIO
    variants: Mapping[str, float]
    #: edge shares of A, B, C and D at VARIANT_SCENARIO, by QoS variant
    qos_shares: Mapping[str, tuple[float, float, float, float]]
    #: scenario, compared policy, and by service the percentage that KubeDSM takes longer
    response_times: tuple[tuple[str, str, Mapping[str, float]], ...]
    #: latency differences by "variant, scenario" and service, relative to the original
    variant_response_times: Mapping[str, Mapping[str, str]]


class Packing(msgspec.Struct, frozen=True, rename="kebab"):
    """Published percentages of "Priority Matters", by time limit, nodes or utilisation."""

    calls: Mapping[int, tuple[float, float]]
    figure_4: Mapping[int, tuple[float, ...]]
    table_1_columns: tuple[tuple[int, int], ...]
    table_1: Mapping[int, tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]]
    four_by_four: Mapping[int, tuple[float, float]]
    nodes: Mapping[int, Mapping[int, tuple[float, ...]]]


class HpaRun(msgspec.Struct, frozen=True, rename="kebab"):
    """Published measurements of a single autoscaler run, with times in seconds."""

    #: time to recover, and when 20 pods were Ready
    ttr: float
    full: float
    max_p99: float
    mean_p99: float
    ok_rate: float


class Hpa(msgspec.Struct, frozen=True, rename="kebab"):
    rises: tuple[float, float]
    wants_all: tuple[float, float]
    window: float
    runs: Mapping[str, HpaRun]


class LoadAware(msgspec.Struct, frozen=True):
    #: by scenario: percent by which the p95 is below kube-scheduler's
    lower: Mapping[int, float]


class Published(msgspec.Struct, frozen=True, rename="kebab"):
    kubedsm: KubeDsm
    packing: Packing
    hpa: Hpa
    load_aware: LoadAware


PUBLISHED = msgspec.toml.decode(
    (files(__package__) / "published.toml").read_bytes(), type=Published
)
