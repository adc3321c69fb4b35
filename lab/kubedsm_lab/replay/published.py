"""Figures that the KubeDSM paper published.

Source: arXiv 2501.07130: the edge ratios read off the figures of its second version (+-.01), the
response times from the text and the figures of its first.
"""

from collections.abc import Mapping

import attrs

from kubedsm_lab.replay.presets import REFERENCE

_BIGGEST, _SMALLEST = "biggest-edge-first", "smallest-edge-first"

#: by policy, in the order of PAPER_SCENARIOS
_EDGE_RATIOS: Mapping[str, tuple[float, ...]] = {
    "kubedsm": (0.85, 0.83, 0.84, 0.77, 0.77, 0.74, 0.79, 0.77, 0.77, 0.78),
    REFERENCE: (0.75, 0.68, 0.69, 0.62, 0.64, 0.66, 0.59, 0.58, 0.61, 0.60),
    _SMALLEST: (0.74, 0.68, 0.71, 0.70, 0.67, 0.73, 0.61, 0.64, 0.66, 0.70),
    _BIGGEST: (0.71, 0.74, 0.71, 0.68, 0.67, 0.63, 0.64, 0.63, 0.60, 0.70),
    "random": (0.56, 0.58, 0.58, 0.51, 0.57, 0.59, 0.49, 0.51, 0.48, 0.53),
    "cloud-first": (0.21, 0.23, 0.25, 0.28, 0.32, 0.31, 0.33, 0.32, 0.29, 0.29),
}
#: edge ratios at VARIANT_SCENARIO
_VARIANTS: Mapping[str, float] = {
    REFERENCE: 0.62,
    "kubedsm": 0.77,
    "mid-migration": 0.81,
    "no-cloud-offload": 0.72,
    "no-edge-migration": 0.67,
}
#: by scenario, compared policy and service: percent that KubeDSM's mean response time is longer;
#: Figures 4 to 12
_RESPONSE_TIMES: Mapping[tuple[str, str], Mapping[str, float]] = {
    ("1.1-.4", REFERENCE): {"a": -25.0, "b": -40.0, "c": -12.5, "d": -36.8},
    ("1.2-.4", REFERENCE): {"a": -20.4, "b": -27.5, "c": -22.0, "d": -35.15},
    ("1.3-.4", REFERENCE): {"a": -29.9, "b": -31.5, "c": -31.4, "d": -12.4},
    ("1.4-.4", REFERENCE): {"a": -22.28, "b": -27.13, "c": -16.7, "d": -39.9},
    ("1.5-.1", REFERENCE): {"a": -17.5, "b": -27.8, "c": -29.5, "d": -42.79},
    ("1.5-.2", REFERENCE): {"a": -20.47, "b": -27.6, "c": -37.15},
    ("1.5-.3", REFERENCE): {"a": -23.2, "b": -21.45, "c": -29.9},
    ("1.5-.4", REFERENCE): {"a": -14.8, "b": -22.3, "c": -22.3},
    ("1.5-.5", REFERENCE): {"a": -33.07, "b": -31.3, "c": -31.3},
    ("1.5-.1", _BIGGEST): {"d": 39.7},
    ("1.5-.1", _SMALLEST): {"d": 12.55},
    ("1.5-.5", _BIGGEST): {"d": 10.25},
    ("1.5-.5", _SMALLEST): {"d": 13.0},
}
#: first version: response times of a variant compared with the original, by service; Figures 13 and
#: 14 for QoS factors, Figure 15 for migration
_VARIANT_RESPONSE_TIMES: Mapping[str, Mapping[str, str]] = {
    "no-migration": {"a": "about +40 %", "b": "same", "c": "about +40 %", "d": "slightly up"},
    "no-cloud-offload": {"a": "up", "b": "+8 %", "c": "up", "d": "-10 %"},
    "no-edge-migration": dict.fromkeys("abcd", "within 10 %"),
    "half-frequency": {"a": "down", "b": "-12 %", "c": "down", "d": "up"},
    "c-over-a": {"c": "-17 %"},
    "only-d": {"d": "-5 %"},
}


@attrs.frozen
class Published:
    """Published figures, comparable for the same cluster and services."""

    edge_ratios: Mapping[str, tuple[float, ...]] = attrs.field(factory=dict)
    variants: Mapping[str, float] = attrs.field(factory=dict)
    response_times: Mapping[tuple[str, str], Mapping[str, float]] = attrs.field(factory=dict)
    variant_response_times: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)


THE_PAPERS = Published(_EDGE_RATIOS, _VARIANTS, _RESPONSE_TIMES, _VARIANT_RESPONSE_TIMES)
NOTHING = Published()
