"""Damage to JSON documents: fields replaced by wrong values, or removed."""

import copy

#: in place of a field: it is not there
MISSING = object()
JUNK = (
    MISSING, None, True, -1, 0, 2**31, 2**63, 10**20, 1e20, 1.5, "", "x", "-5", "50%", "1Gi",
    "\u202e☃", "a" * 254, "2026-01-01T00:00:00.5Z", "2099-01-01T00:00:00Z", [], ["x"], [None],
    {}, {"a": 1}, [{}],
)  # fmt: skip


def places(value, path=()):
    """Yield the path of every field and item of a document."""
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def put(document, path, value):
    """Replace or remove the value at a path of a document, in place; ignore a missing path."""
    *parents, last = path
    value = value if value is MISSING else copy.deepcopy(value)
    for key in parents:
        try:
            document = document[key]
        except (KeyError, IndexError, TypeError):
            return
    if value is not MISSING and isinstance(document, dict | list):
        if isinstance(document, dict) or last in range(len(document)):
            document[last] = value
    elif isinstance(document, dict):
        document.pop(last, None)
    elif isinstance(document, list) and last in range(len(document)):
        del document[last]
