"""What tenants ask for by annotations of their pods: the pod template's of a workload."""

from typing import Literal

import attrs

QOS_ANNOTATION = "kubedsm.io/qos"
MIGRATION_ANNOTATION = "kubedsm.io/migration"


@attrs.frozen(slots=True)
class Wishes:
    """The two of them, as far as they are understood."""

    #: the edge share of the pod's workload
    qos: float | None = None
    #: empty if nothing is said
    migration: Literal["surge", "recreate", "off", ""] = ""
    #: for each that is not understood, what is wrong with it
    ignored: tuple[str, ...] = ()
