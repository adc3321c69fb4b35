"""JSON values of the API: timestamps, quantities, nesting depth and nulls."""

import datetime as dt
import operator
from functools import lru_cache
from typing import Any

from kubedsm.model.quantities import parse_millis
from kubedsm.process import clock
from kubedsm_lab.emulator.api.errors import bad_request
from kubedsm_lab.emulator.api.resources import Object


def rfc3339(wall: float) -> str:
    return _format_timestamp(int(wall), micro=False)


_format_timestamp = lru_cache(maxsize=1024)(clock.rfc3339)


@lru_cache(maxsize=4096)
def seconds(timestamp: str) -> float:
    return dt.datetime.fromisoformat(timestamp.upper()).timestamp()


def thousandths(quantity: object) -> int:
    """Parse a Kubernetes quantity of valid syntax, such as 500m or 64Mi; return thousandths of the
    unit.
    """
    return _thousandths(str(quantity))


@lru_cache(maxsize=4096)
def _thousandths(quantity: str) -> int:
    return -parse_millis(quantity[1:]) if quantity.startswith("-") else parse_millis(quantity)


def format_quantity(amount: int) -> str:
    """Format thousandths of a resource as quotas show them: 500m, 4."""
    return f"{amount}m" if amount % 1000 else str(amount // 1000)


#: maximum nesting depth; the JSON encoder allows 254, and lists and Tables add levels
_DEEPEST = 200


def check_depth(value: Any) -> None:
    """Raise ApiError (400) for JSON that is nested too deeply to be encoded."""
    layer, depth = [value], 0
    while layer:
        depth += 1
        if depth > _DEEPEST:
            raise bad_request(f"the body is nested deeper than {_DEEPEST} levels")
        containers = (part for part in layer if isinstance(part, dict | list))
        layer = [
            child
            for part in containers
            for child in (part.values() if isinstance(part, dict) else part)
        ]


def without_null_fields(obj: Object) -> Object:
    """Return the object without null fields in metadata and spec, which Go would drop."""
    return {
        key: without_nulls(part) if key in ("metadata", "spec") else part
        for key, part in obj.items()
    }


def without_nulls(value: Any) -> Any:
    """Return a JSON value without nulls; the same value if it has none."""
    if isinstance(value, dict):
        kept = {key: without_nulls(part) for key, part in value.items() if part is not None}
        same = len(kept) == len(value) and all(kept[key] is value[key] for key in kept)
        return value if same else kept
    if isinstance(value, list):
        items = [without_nulls(item) for item in value]
        return value if all(map(operator.is_, items, value)) else items
    return value
