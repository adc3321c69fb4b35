"""Somebody else's pod, which comes when something has just gone wrong, and has no part in it."""

import asyncio

from kubedsm.kube.watching.reflector import LIST_TIMEOUT, SILENT_AFTER
from kubedsm_lab.chaos.faults import LASTING, WORLD, Fault
from kubedsm_lab.chaos.interruptions import INTERRUPTIONS, PROCESS
from kubedsm_lab.chaos.invariants import OURS
from kubedsm_lab.chaos.perturbations import LATE
from kubedsm_lab.emulator.actors.pod_state import node_of
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import NAMESPACES, PODS
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.emulator.paper import node

NAMESPACE = "beside"
#: its own node, where there is no room for others
NODE = node("b1", "cloud", "100m", "200Mi")
#: seconds after the fault
SOON = 0.1
#: seconds in which whoever is heard of is served, also by a scheduler that was just started anew
USUAL = 3.0
#: seconds that it may take after a lasting fault until all is tried again
_BACK_OFF = 45.0


class Bystander:
    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._came: float | None = None
        #: seconds until it was bound
        self.waited: float | None = None
        api.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        api.store.subscribe(self._notice)

    @property
    def waits(self) -> bool:
        return self._came is not None and self.waited is None

    def come(self) -> None:
        """To be called when something has gone wrong."""
        asyncio.get_running_loop().call_later(SOON, self._come)

    def _come(self) -> None:
        requests = {"cpu": "50m", "memory": "50Mi"}
        container = {"name": "c", "image": "pause", "resources": {"requests": requests}}
        spec = {
            "schedulerName": OURS,
            "nodeSelector": {"kubernetes.io/hostname": NODE["metadata"]["name"]},
            "containers": [container],
        }
        self._came = asyncio.get_running_loop().time()
        metadata = {"name": "bystander", "labels": {"app": "bystander"}}
        self._api.create(PODS, {"metadata": metadata, "spec": spec}, namespace=NAMESPACE)

    def _notice(self, change: ObjectChange) -> None:
        thing = change.object
        if self.waits and self._came is not None and change.resource is PODS:
            beside = thing["metadata"]["namespace"] == NAMESPACE
            if beside and node_of(thing):
                self.waited = asyncio.get_running_loop().time() - self._came


def longest_wait(fault: Fault, handover: float, slowest: float) -> float:
    """Seconds that it may wait: not longer than the scheduler cannot hear of it, or not bind it.

    `handover`: seconds until another one leads; 0 if there is none. `slowest`: the rate of the
    slowest clock.
    """
    if fault.family == PROCESS:
        interruption = INTERRUPTIONS[fault.what]
        replaced = handover and interruption.end is not None
        return USUAL + handover + (0.0 if replaced else interruption.lasts)
    return handover + _unserved(fault) / slowest


def _unserved(fault: Fault) -> float:
    if fault.lasting and fault.family != WORLD:
        return LASTING + _BACK_OFF
    if fault.what == "silence":
        return SILENT_AFTER + USUAL
    if fault.what == "delay":
        return LATE + USUAL
    if fault.what.startswith("timeout") and fault.site.startswith(
        ("list-", "watch-", "get-version")
    ):
        return LIST_TIMEOUT + USUAL
    return USUAL
