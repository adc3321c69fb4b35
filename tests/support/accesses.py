"""RBAC permissions that the scheduler's requests to the API server need."""

from kubedsm.kube.calls.permissions import Right
from kubedsm.kube.client.port import APPROVALS, MIGRATIONS
from kubedsm_lab.emulator.front import Faults, RequestFault
from kubedsm_lab.emulator.http.paths import attributes_of

OWN = "kubedsm"
#: the scheduler's own objects, in its own namespace
OF_ITS_OWN = ("configmaps", "leases")


def right_for(request):
    """Return the permission that a request needs; None if every client has it."""
    asked = attributes_of(request.method, request.path, request.query)
    if asked.path:
        return None
    resource = "/".join(filter(None, (asked.resource, asked.subresource)))
    own = asked.namespace == OWN and asked.resource in OF_ITS_OWN
    right = Right(asked.verb, asked.group, resource, own)
    # What a Role with resourceNames allows.
    end = APPROVALS if asked.resource == "configmaps" else MIGRATIONS
    names = (OWN, OWN + end)
    assert asked.name in names or not right.named, request
    return right


class Accesses(Faults):
    """Faults that record the permissions used; requests for paths ending in `failing` fail."""

    def __init__(self, failing="", fault=None):
        self.rights = set()
        self._failing, self._fault = failing, fault

    def on_request(self, request) -> RequestFault | None:
        right = right_for(request)
        if right is not None:
            self.rights.add(right)
        if self._fault is None or not request.path.endswith(self._failing):
            return None
        fault, self._fault = self._fault, None
        return fault
