"""Values held against Grafana's own types, which its foundation SDK has generated from its schema.

The SDK reads what it knows and passes by the rest, whatever its type: hence a second look.
"""

import enum
import json
import types
import typing

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.cog.runtime import UnknownDataquery, panelcfg_config
from grafana_foundation_sdk.models.dashboard import Dashboard, Panel

register_default_plugins()


def faults(document):
    """Lines, each of which says where the document is no dashboard of Grafana's, and why."""
    read = Dashboard.from_json(document)
    known = json.loads(json.dumps(read, cls=JSONEncoder))
    return [*dropped(document, known, ""), *wrong(read, Dashboard, ""), *_unknown_kinds(read)]


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


def wrong(value, hint, where):
    """What is not of the type that the SDK says it is."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        if value is not None or type(None) not in arguments:
            kinds = [each for each in arguments if each is not type(None)]
            found = [list(wrong(value, each, where)) for each in kinds]
            yield from () if [] in found else min(found, key=len)
    elif hasattr(value, "to_json"):
        for name, own in typing.get_type_hints(type(value)).items():
            yield from wrong(getattr(value, name), own, f"{where}.{name}")
    elif origin in {list, dict} and isinstance(value, origin):
        for key, item in enumerate(value) if origin is list else value.items():
            yield from wrong(item, arguments[-1], f"{where}[{key}]")
    elif origin is typing.Literal:
        yield from () if value in arguments else (f"{where}: {value!r} is not in {arguments}",)
    elif hint not in {typing.Any, object}:
        yield from _plain(value, origin or hint, where)


def _plain(value, kind, where):
    if issubclass(kind, enum.Enum):
        names = [each.value for each in kind]
        yield from () if value in names else (f"{where}: {value!r} is not in {names}",)
    elif isinstance(value, dict) and hasattr(kind, "from_json"):  # which the SDK has not read
        read = kind.from_json(value)
        yield from dropped(value, json.loads(json.dumps(read, cls=JSONEncoder)), where)
        yield from wrong(read, kind, where)
    elif isinstance(value, bool) > (kind is bool) or not isinstance(
        value, int | float if kind is float else kind
    ):
        yield f"{where}: {value!r} is no {kind.__name__}"
