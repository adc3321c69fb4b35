"""The entries of metadata.managedFields: who set which fields, how, through what, and when."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import attrs

from kubedsm_lab.emulator.api.managed_fields.field_sets import (
    FieldSet,
    difference,
    is_field_set,
    ordered,
    union,
)
from kubedsm_lab.emulator.api.managed_fields.walks import Comparison
from kubedsm_lab.emulator.api.moments import seconds
from kubedsm_lab.emulator.api.resources import Object

Operation = Literal["Apply", "Update"]


@attrs.frozen
class Manager:
    """Whose entry it is. Appliers are the same one in whatever version they apply."""

    name: str
    operation: Operation
    subresource: str = ""
    #: empty for those that apply
    api_version: str = ""

    def __str__(self) -> str:
        """As messages name it."""
        of = f' with subresource "{self.subresource}"' if self.subresource else ""
        using = f" using {self.api_version}" if self.operation == "Update" else ""
        return f'"{self.name}"{of}{using}'


@attrs.frozen
class Entry:
    #: in the order in which they are shown
    fields: FieldSet
    api_version: str
    #: as timestamps are written; empty for one that has changed nothing yet
    time: str = ""


Entries = Mapping[Manager, Entry]


def without_fields(entries: Entries, doomed: FieldSet, spared: Manager | None = None) -> Entries:
    """The entries of all but the one spared without those fields, and none that has none left."""
    if not doomed:
        return entries
    rest = {
        manager: entry
        if manager == spared
        else attrs.evolve(entry, fields=difference(entry.fields, doomed))
        for manager, entry in entries.items()
    }
    return {manager: entry for manager, entry in rest.items() if entry.fields}


def updated(
    entries: Entries, manager: Manager, api_version: str, change: Comparison, time: str
) -> Entries:
    """After a write that changed this: what it set is the manager's, and nobody else's."""
    taken = union(change.modified, change.added)
    rest = dict(without_fields(entries, union(taken, change.removed)))
    if not taken:
        return rest
    before = entries.get(manager)
    if before is not None:
        kept = difference(before.fields, change.removed)
        taken = union(kept, taken)
    rest[manager] = Entry(ordered(taken), api_version, time)
    return rest


def same_owners(one: Entries, other: Entries) -> bool:
    """Whether nothing but times is different."""
    return one.keys() == other.keys() and all(
        (entry.fields, entry.api_version) == (other[manager].fields, other[manager].api_version)
        for manager, entry in one.items()
    )


def shown(entries: Entries) -> list[Object]:
    """As metadata.managedFields has them."""
    return [_shown(manager, entries[manager]) for manager in sorted(entries, key=_order(entries))]


def decoded(given: Any) -> Entries | None:
    """What a client sent as managedFields; None for what is not that."""
    if not isinstance(given, list):
        return None
    entries = {}
    for one in given:
        if not isinstance(one, dict) or one.get("fieldsType") != "FieldsV1":
            return None
        operation, version = one.get("operation"), one.get("apiVersion")
        fields, time = one.get("fieldsV1") or {}, one.get("time") or ""
        texts = (one.get("manager", ""), one.get("subresource", ""), time)
        if operation not in ("Apply", "Update") or not isinstance(version, str) or not version:
            return None
        if not is_field_set(fields) or not all(isinstance(text, str) for text in texts):
            return None
        if time and not _is_time(time):
            return None
        name, subresource, _ = texts
        manager = manager_of(name, operation, subresource, version)
        entries[manager] = Entry(ordered(fields), version, time)
    return entries


def is_reset(given: Any) -> bool:
    """Whether a client asks for all entries to be forgotten: [] or [{}]."""
    return isinstance(given, list) and given in ([], [{}])


def manager_of(name: str, operation: Operation, subresource: str, api_version: str) -> Manager:
    return Manager(name, operation, subresource, "" if operation == "Apply" else api_version)


def all_fields(entries: Iterable[Entry]) -> FieldSet:
    fields: FieldSet = {}
    for entry in entries:
        fields = union(fields, entry.fields)
    return fields


def _order(entries: Entries) -> Any:
    def rank(manager: Manager) -> tuple[str, float, str, str, str]:
        entry = entries[manager]
        when = seconds(entry.time) if entry.time else 0.0
        return manager.operation, when, manager.name, entry.api_version, manager.subresource

    return rank


def _shown(manager: Manager, entry: Entry) -> Object:
    return {
        **({"manager": manager.name} if manager.name else {}),
        "operation": manager.operation,
        "apiVersion": entry.api_version,
        **({"time": entry.time} if entry.time else {}),
        "fieldsType": "FieldsV1",
        "fieldsV1": entry.fields,
        **({"subresource": manager.subresource} if manager.subresource else {}),
    }


def _is_time(text: str) -> bool:
    try:
        seconds(text)
    except ValueError:
        return False
    return True
