"""Latencies of a real control plane, drawn at random for an emulated one.

Source: kube-apiserver and kube-controller-manager 1.35.5 with etcd 3.5.16, on two cores that other
processes kept busy; audit log of 151 Deployments with three replicas. Only the extremes of both
latencies were recorded, so that draws are uniform between them.
"""

import random

import attrs

#: seconds from the decision to create a pod until it is stored: 20 to 60 ms
CREATION = (0.020, 0.060)
#: seconds from a write until a watch delivers it: decisions 4 to 83 ms after a bind had been
#: answered were made before the watch delivered that bind
DELIVERY = (0.004, 0.083)


@attrs.frozen
class Pacing:
    """Generator of API latencies; equal seeds draw equal latencies."""

    rng: random.Random

    def draw_creation(self) -> float:
        """Return the latency of one pod creation request, in seconds."""
        return self.rng.uniform(*CREATION)

    def draw_delivery(self) -> float:
        """Return the latency of one watch event, in seconds."""
        return self.rng.uniform(*DELIVERY)
