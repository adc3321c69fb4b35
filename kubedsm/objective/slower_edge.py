"""Workloads that the edge serves more slowly than the cloud: no more of them is wanted there.

What the edge has of them stays as it is worth: it is not the edge's pods that are to go, but no
further ones that are to come, as long as these make every answer later.
"""

import attrs

from kubedsm.model.model import Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import Promises


def not_filled_further(promises: Promises, snapshot: Snapshot) -> Promises:
    """The promises, no more pods wanted of slower workloads than the edge has of them now."""
    if not snapshot.measured.slower:
        return promises
    shares = snapshot.shares()
    limited = {
        workload: attrs.evolve(promises(workload), most=shares[workload].edge)
        for workload in sorted(snapshot.measured.slower)
        if workload in shares
    }
    return lambda workload: limited.get(workload) or promises(workload)


def as_promised(promises: Promises) -> Promises:
    """The promises, as if the edge were slower for none."""
    return lambda workload: attrs.evolve(promises(workload), most=None)


def unwanted(promises: Promises, workload: Workload) -> bool:
    """Whether no further pod of the workload is wanted on the edge."""
    return promises(workload).most is not None
