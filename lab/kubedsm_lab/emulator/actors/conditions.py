"""Conditions of a status."""

from collections.abc import Iterable

from kubedsm_lab.emulator.api.resources import Object


def find(conditions: Iterable[Object], kind: str) -> Object | None:
    return next((condition for condition in conditions if condition["type"] == kind), None)


def reason_of(condition: Object | None) -> str:
    """Return the reason; "" without a condition or reason."""
    reason: str = (condition or {}).get("reason", "")
    return reason


def without(conditions: Iterable[Object], kind: str) -> list[Object]:
    return [condition for condition in conditions if condition["type"] != kind]


def of(status: Object) -> list[Object]:
    conditions: list[Object] | None = status.get("conditions")
    return conditions or []


def condition(kind: str, status: bool | str, now: str, reason: str, message: str) -> Object:
    return {
        "type": kind,
        "status": status if isinstance(status, str) else str(status),
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def updated(conditions: list[Object], new: Object) -> list[Object]:
    """Replace the condition of the same type, or add it.

    The transition time is kept if the status is unchanged.
    """
    old = find(conditions, new["type"])
    if old is None:
        return [*conditions, new]
    if old["status"] == new["status"]:
        new = {**new, "lastTransitionTime": old["lastTransitionTime"]}
    return [new if condition is old else condition for condition in conditions]
