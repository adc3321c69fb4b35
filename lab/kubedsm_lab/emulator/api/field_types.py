"""The JSON types of fields that many kinds have, and of the statuses that actors read.

Null means absent. A field that is not read here passes as it is.
"""

import datetime as dt
import re
from collections.abc import Mapping
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
Shape = type[msgspec.Struct]
#: types of fields; an int, a bool or a Shape is one, too
INT32: Any = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
INT_OR_TEXT: Any = INT32 | str
TIMESTAMP: Any = Annotated[dt.datetime, msgspec.Meta(tz=True)]
TEXTS: Any = list[str]
TEXT_BY_NAME: Any = dict[str, str]
QUANTITIES: Any = dict[str, Quantity]
#: an object of any fields
ANY: Any = dict[str, Any]


def shape(text: str = "", *, required: str = "", **fields: Any) -> Shape:
    """An object with these fields: names of texts, of texts that it must have, and others."""
    optional = dict.fromkeys(text.split(), str) | fields
    return msgspec.defstruct(
        "Shape",
        [
            *((name, str) for name in required.split()),
            *((name, kind | None, None) for name, kind in optional.items()),
        ],
    )


def many(kind: Any) -> Any:
    return list[kind]


def _status(text: str = "", **fields: Any) -> Shape:
    condition = shape(
        "type status reason message",
        lastTransitionTime=TIMESTAMP,
        lastUpdateTime=TIMESTAMP,
        lastProbeTime=TIMESTAMP,
        lastHeartbeatTime=TIMESTAMP,
    )
    return shape(text, conditions=many(condition), **fields)


_CONTAINERS = many(shape("name", restartCount=INT32))
#: by the name of what they are of; the first is of all that have none of their own
STATUSES: Mapping[str, Shape] = {
    "": _status(),
    "Pod": _status(
        "phase podIP",
        startTime=TIMESTAMP,
        containerStatuses=_CONTAINERS,
        initContainerStatuses=_CONTAINERS,
    ),
    "Node": _status(
        capacity=QUANTITIES,
        allocatable=QUANTITIES,
        addresses=many(shape("type address")),
        nodeInfo=ANY,
    ),
    "Workload": _status(
        "currentRevision updateRevision",
        observedGeneration=int,
        **dict.fromkeys(
            (
                *("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"),
                *("unavailableReplicas", "terminatingReplicas", "fullyLabeledReplicas"),
                *("currentReplicas", "collisionCount"),
            ),
            INT32,
        ),
    ),
    "Budget": _status(
        observedGeneration=int,
        disruptedPods=dict[str, TIMESTAMP | None],
        disruptionsAllowed=INT32,
        currentHealthy=INT32,
        desiredHealthy=INT32,
        expectedPods=INT32,
    ),
    "Autoscaler": _status(
        lastScaleTime=TIMESTAMP,
        currentReplicas=INT32,
        desiredReplicas=INT32,
        currentMetrics=many(ANY),
    ),
    "Job": _status(
        active=INT32,
        ready=INT32,
        succeeded=INT32,
        failed=INT32,
        terminating=INT32,
        startTime=TIMESTAMP,
        completionTime=TIMESTAMP,
        uncountedTerminatedPods=ANY,
    ),
    "Quota": _status(hard=QUANTITIES, used=QUANTITIES),
}
