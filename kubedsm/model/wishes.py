"""What tenants ask for by annotations of their pods: the pod template's of a workload."""

from typing import Literal

import attrs

QOS_ANNOTATION = "kubedsm.io/qos"
MIGRATION_ANNOTATION = "kubedsm.io/migration"
RATE_ANNOTATION = "kubedsm.io/rate"


@attrs.frozen(slots=True)
class Wishes:
    """Those of them that are there, as far as they are understood."""

    #: the edge share of the pod's workload
    qos: float | None = None
    #: empty if nothing is said
    migration: Literal["surge", "recreate", "off", ""] = ""
    #: for each that is not understood, what is wrong with it
    ignored: tuple[str, ...] = ()
    #: requests/s that the pod's workload is said to answer
    rate: float | None = None
