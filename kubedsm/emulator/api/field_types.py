"""The JSON types of fields that many kinds have, and of the statuses that actors read.

Null means absent. A field that is not read here passes as it is.
"""

import datetime as dt
import re
from typing import Annotated, Any

import msgspec

_QUANTITY = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?", re.ASCII
)
_NO_QUANTITY = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


class QuantitySyntaxError(Exception):
    """Not a ValueError: msgspec would add to its message where it was found."""


class Quantity:
    """A resource quantity: text such as 500m, or a number."""


def of_own_type(kind: type, value: object) -> object:
    if kind is not Quantity:
        raise NotImplementedError(f"no rule for {kind}")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number and not (isinstance(value, str) and _QUANTITY.fullmatch(value)):
        raise QuantitySyntaxError(_NO_QUANTITY)
    return _A_QUANTITY


_A_QUANTITY = Quantity()
Labels = dict[str, str] | None
Quantities = dict[str, Quantity] | None
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
IntOrText = Int32 | str | None
Timestamp = Annotated[dt.datetime, msgspec.Meta(tz=True)]


class Type(msgspec.Struct, rename="camel"):
    """Base of all kinds and parts of kinds."""


class Condition(Type):
    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: Timestamp | None = None
    last_update_time: Timestamp | None = None
    last_probe_time: Timestamp | None = None
    last_heartbeat_time: Timestamp | None = None


class Status(Type):
    conditions: list[Condition] | None = None


class _ContainerStatus(Type):
    name: str | None = None
    restart_count: Int32 | None = None


class PodStatus(Status):
    phase: str | None = None
    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    start_time: Timestamp | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None


class _Address(Type):
    type: str | None = None
    address: str | None = None


class NodeStatus(Status):
    capacity: Quantities = None
    allocatable: Quantities = None
    addresses: list[_Address] | None = None
    node_info: dict[str, Any] | None = None


class WorkloadStatus(Status):
    """Of a Deployment, a ReplicaSet or a StatefulSet."""

    observed_generation: int | None = None
    replicas: Int32 | None = None
    updated_replicas: Int32 | None = None
    ready_replicas: Int32 | None = None
    available_replicas: Int32 | None = None
    unavailable_replicas: Int32 | None = None
    terminating_replicas: Int32 | None = None
    fully_labeled_replicas: Int32 | None = None
    current_replicas: Int32 | None = None
    current_revision: str | None = None
    update_revision: str | None = None
    collision_count: Int32 | None = None


class BudgetStatus(Status):
    observed_generation: int | None = None
    disrupted_pods: dict[str, Timestamp | None] | None = None
    disruptions_allowed: Int32 | None = None
    current_healthy: Int32 | None = None
    desired_healthy: Int32 | None = None
    expected_pods: Int32 | None = None


class AutoscalerStatus(Status):
    last_scale_time: Timestamp | None = None
    current_replicas: Int32 | None = None
    desired_replicas: Int32 | None = None
    current_metrics: list[dict[str, Any]] | None = None


class QuotaStatus(Status):
    hard: Quantities = None
    used: Quantities = None
