"""Objects that no sensible user makes, and every API server takes."""

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import orjson

from kubedsm.kube.wire.annotations import MOVE_ANNOTATION
from kubedsm.model.model import MIGRATING_LABEL
from kubedsm_lab.bench.api import deployment, pod_spec

#: replicas of a Deployment, at most
MOST_REPLICAS = 4
#: a label of the pods that a budget of 0 is about
KEPT = {"kept": "always"}
_ABSURD = (
    {"cpu": "100T"}, {"cpu": "1E"}, {"cpu": "9223372036854775807"}, {"memory": "1e20"},
    {"memory": "9223372036854775807"}, {"cpu": "1", "example.com/device": "9223372036854775807"},
)  # fmt: skip


@attrs.frozen
class Wave:
    """What comes at once: so many pods, those that are bound already on that node."""

    number: int
    pods: int
    node: str
    rng: random.Random


#: pods and Deployments, without names
Oddity = Callable[[Wave], Iterator[Any]]


def absurd(wave: Wave) -> Iterator[Any]:
    """Amounts that no node will ever have."""
    for index in range(wave.pods):
        yield {"metadata": {}, "spec": pod_spec(_ABSURD[index % len(_ABSURD)])}


def overlapping(wave: Wave) -> Iterator[Any]:
    """Each pod spreads over the others, but each over a different choice of them."""
    for index in range(wave.pods):
        chosen = [str(n) for n in range(wave.pods) if n == index or wave.rng.randrange(2)]
        selector = {"matchExpressions": [{"key": "n", "operator": "In", "values": chosen}]}
        constraint = {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector,
        }
        spec = pod_spec({"cpu": "1m"}, topologySpreadConstraints=[constraint])
        yield {"metadata": {"labels": {"n": str(index)}}, "spec": spec}


def forged(wave: Wave) -> Iterator[Any]:
    """Pods that say they are being moved, kept by a budget of 0; and a Deployment of such."""
    label = {MIGRATING_LABEL: f"w{wave.number}"}
    for index in range(wave.pods - MOST_REPLICAS):
        note = {"plan": "p", "replicaSet": "../../x", "target": wave.node, "since": 0}
        annotations = {MOVE_ANNOTATION: orjson.dumps(note).decode()}
        spec = pod_spec({"cpu": "1m"}, nodeName=wave.node)
        spec["schedulerName"] = "kubedsm" if index % 2 else "default-scheduler"
        yield {"metadata": {"labels": label | KEPT, "annotations": annotations}, "spec": spec}
    yield deployment("forged", MOST_REPLICAS, pod_spec({"cpu": "10m"}), label)


ODDITIES: Mapping[str, Oddity] = {
    "absurd": absurd,
    "overlapping": overlapping,
    "forged": forged,
}
