"""The hash of a pod template, in the letters and digits that Kubernetes puts into names."""

import hashlib
import json
from typing import Any

#: no vowels, and no 0, 1 and 3, so that no word comes out by accident
_SAFE = "bcdfghjklmnpqrstvwxz2456789"


def canonical(value: Any) -> Any:
    """Without what is empty: a template that lost its only annotation is the one without any."""
    if isinstance(value, dict):
        return {k: kept for k, v in value.items() if (kept := canonical(v)) not in _EMPTY}
    if isinstance(value, list):
        return [canonical(item) for item in value]
    return value


_EMPTY: tuple[Any, ...] = (None, {}, [])


def template_hash(template: Any, collisions: int = 0) -> str:
    """Equal for equal templates, whatever the order of their keys; another for each collision."""
    text = json.dumps([canonical(template), collisions], sort_keys=True, separators=(",", ":"))
    number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big")
    return "".join(_SAFE[ord(digit) % len(_SAFE)] for digit in str(number))
