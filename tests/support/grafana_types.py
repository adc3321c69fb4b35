"""Validation of dashboards against the types of Grafana's foundation SDK.

The SDK ignores unknown fields; the module therefore compares its output with the input.
"""

import json

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.cog.runtime import UnknownDataquery, panelcfg_config
from grafana_foundation_sdk.models.dashboard import Dashboard, Panel

register_default_plugins()


def faults(document):
    """Return the errors of a dashboard document, each with its location."""
    read = Dashboard.from_json(document)
    known = json.loads(json.dumps(read, cls=JSONEncoder))
    return [*dropped(document, known, ""), *_unknown_kinds(read)]


def _unknown_kinds(read):
    """Yield panels and queries of types that the SDK does not know, and passes on unchecked."""
    for panel in read.panels:
        if isinstance(panel, Panel):
            if panelcfg_config(panel.type_val) is None:
                yield f"{panel.title}: {panel.type_val} is no kind of panel"
            if any(isinstance(target, UnknownDataquery) for target in panel.targets):
                yield f"{panel.title}: its data source is of no kind that is known"


def dropped(given, known, where):
    """Yield the locations of values that are in `given` but not in `known`."""
    if isinstance(given, dict) and isinstance(known, dict):
        for key, value in given.items():
            at = f"{where}.{key}"
            yield from dropped(value, known[key], at) if key in known else (f"{at} is not known",)
    elif isinstance(given, list) and isinstance(known, list) and len(given) == len(known):
        for index, pair in enumerate(zip(given, known, strict=True)):
            yield from dropped(*pair, f"{where}[{index}]")
    elif given != known:
        yield f"{where} became {known}"
