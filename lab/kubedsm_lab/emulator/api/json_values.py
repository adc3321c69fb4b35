"""What is true of every JSON body, whatever it is about."""

import operator
from typing import Any

from kubedsm_lab.emulator.api.errors import bad_request
from kubedsm_lab.emulator.api.resources import Object

#: levels; the JSON encoder ends at 254, and lists and Tables add theirs
_DEEPEST = 200


def check_depth(value: Any) -> None:
    """Raises ApiError (400) for JSON that is nested too deeply to be written again."""
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
    """Go has no null: a field of metadata or spec that is null is one that is not there."""
    return {
        key: without_nulls(part) if key in ("metadata", "spec") else part
        for key, part in obj.items()
    }


def without_nulls(value: Any) -> Any:
    """The very same value if there is none in it."""
    if isinstance(value, dict):
        kept = {key: without_nulls(part) for key, part in value.items() if part is not None}
        same = len(kept) == len(value) and all(kept[key] is value[key] for key in kept)
        return value if same else kept
    if isinstance(value, list):
        items = [without_nulls(item) for item in value]
        return value if all(map(operator.is_, items, value)) else items
    return value
