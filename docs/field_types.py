"""Writes which fields the served kinds have, and of which types, as kubernetes_asyncio knows them.

    python docs/field_types.py

The emulated API server checks objects by the file. Importing the library there would take half a
second.
"""

import json
import re
from pathlib import Path

from kubernetes_asyncio.client import models

from kubedsm_lab.emulator.api.decoding import BODIES, FIELD_TYPES, model_of
from kubedsm_lab.emulator.api.resources import SERVED


def fields_of(names: list[str]) -> dict[str, dict[str, str]]:
    """By model, and by field as JSON has it: the library's word for its type."""
    found: dict[str, dict[str, str]] = {}
    while names:
        name = names.pop()
        model = getattr(models, name, None)
        if model is None or name in found:
            continue
        types = model.openapi_types
        found[name] = {model.attribute_map[key]: kind for key, kind in sorted(types.items())}
        names += [word for kind in types.values() for word in re.findall(r"\w+", kind)]
    return dict(sorted(found.items()))


def main() -> None:
    found = fields_of([model_of(resource) for resource in (*SERVED, *BODIES)])
    lines = (f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in found.items())
    Path(FIELD_TYPES).write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
