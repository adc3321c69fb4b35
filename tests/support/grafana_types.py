"""Values held against Grafana's own types, which its foundation SDK has generated from its schema.

The SDK reads what it knows and passes by the rest: hence a second look.
"""

import json

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.cog.runtime import UnknownDataquery, panelcfg_config
from grafana_foundation_sdk.models.dashboard import Dashboard, Panel

register_default_plugins()


def faults(document):
    """Lines, each of which says where the document is no dashboard of Grafana's, and why."""
    read = Dashboard.from_json(document)
    known = json.loads(json.dumps(read, cls=JSONEncoder))
    return [*dropped(document, known, ""), *_unknown_kinds(read)]


def _unknown_kinds(read):
    """Panels and queries of kinds that the SDK has no types of, and takes as they are."""
    for panel in read.panels:
        if isinstance(panel, Panel):
            if panelcfg_config(panel.type_val) is None:
                yield f"{panel.title}: {panel.type_val} is no kind of panel"
            if any(isinstance(target, UnknownDataquery) for target in panel.targets):
                yield f"{panel.title}: its data source is of no kind that is known"


def dropped(given, known, where):
    """What is in one, and not in the other that was made of it."""
    if isinstance(given, dict) and isinstance(known, dict):
        for key, value in given.items():
            at = f"{where}.{key}"
            yield from dropped(value, known[key], at) if key in known else (f"{at} is not known",)
    elif isinstance(given, list) and isinstance(known, list) and len(given) == len(known):
        for index, pair in enumerate(zip(given, known, strict=True)):
            yield from dropped(*pair, f"{where}[{index}]")
    elif given != known:
        yield f"{where} became {known}"
