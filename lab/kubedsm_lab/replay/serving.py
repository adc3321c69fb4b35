"""Which pods of some services are Ready, by what the store of an emulated cluster tells."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from kubedsm.kube.wire import decoding
from kubedsm.model.model import NodeName, Uid
from kubedsm_lab.emulator.api.resources import PODS
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.replay.recording import SERVICE_LABEL


class Serving(NamedTuple):
    """A pod that is Ready."""

    name: str
    service: str
    node: NodeName


def serving_after(
    serving: Mapping[Uid, Serving], change: ObjectChange, services: Collection[str]
) -> Mapping[Uid, Serving]:
    """Those that are after the change, in the order in which they became so.

    The same mapping if the change is about nothing of that.
    """
    if change.resource is not PODS:
        return serving
    pod = decoding.pod(change.object)
    service = pod.labels.get(SERVICE_LABEL, "")
    serves = pod.ready and not pod.terminating and change.type != "DELETED"
    if serves == (pod.uid in serving) or service not in services or not pod.node_name:
        return serving
    if serves:
        return {**serving, pod.uid: Serving(pod.name, service, pod.node_name)}
    return {uid: each for uid, each in serving.items() if uid != pod.uid}
