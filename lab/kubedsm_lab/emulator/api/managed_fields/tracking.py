"""Entries of metadata.managedFields, computed on demand from the writes since the last time.

Most objects of an emulated cluster are written more often than their managers are read, and the
change of a write can be computed later: the stored versions before and after it never change.
"""

from collections.abc import Mapping
from typing import Any, Literal

import attrs

from kubedsm_lab.emulator.api.defaulting import with_defaults
from kubedsm_lab.emulator.api.forms import to_requested_form
from kubedsm_lab.emulator.api.list_types import fields_of
from kubedsm_lab.emulator.api.managed_fields.field_sets import (
    Comparison,
    FieldSet,
    comparison,
    format_tree,
    is_field_set,
    parse_tree,
    share_set,
)
from kubedsm_lab.emulator.api.resources import Object, Resource
from kubedsm_lab.emulator.api.statuses import ZERO_VALUES
from kubedsm_lab.emulator.api.values import seconds

Operation = Literal["Apply", "Update"]


@attrs.frozen
class Manager:
    """Owner of an entry. An applying manager is the same in all versions."""

    name: str
    operation: Operation
    subresource: str = ""
    #: empty for Apply
    api_version: str = ""

    def __str__(self) -> str:
        """Return the name in messages."""
        of = f' with subresource "{self.subresource}"' if self.subresource else ""
        using = f" using {self.api_version}" if self.operation == "Update" else ""
        return f'"{self.name}"{of}{using}'


@attrs.frozen
class Entry:
    fields: FieldSet
    api_version: str
    #: timestamp; empty for a manager that has changed nothing yet
    time: str = ""


Entries = Mapping[Manager, Entry]


def without_fields(entries: Entries, doomed: FieldSet, spared: Manager | None = None) -> Entries:
    """Remove fields from all entries but that of the spared manager, and drop empty entries."""
    if not doomed:
        return entries
    rest = {
        manager: entry if manager == spared else attrs.evolve(entry, fields=entry.fields - doomed)
        for manager, entry in entries.items()
    }
    return {manager: entry for manager, entry in rest.items() if entry.fields}


def update_entries(
    entries: Entries, manager: Manager, api_version: str, change: Comparison, time: str
) -> Entries:
    """Return the entries after a write: its changed fields belong to its manager alone."""
    taken = change.modified | change.added
    rest = dict(without_fields(entries, taken | change.removed))
    if not taken:
        return rest
    before = entries.get(manager)
    if before is not None:
        taken |= before.fields - change.removed
    rest[manager] = Entry(share_set(taken), api_version, time)
    return rest


def format_entries(entries: Entries) -> list[Object]:
    """Return the entries as metadata.managedFields."""

    def rank(manager: Manager) -> tuple[str, float, str, str, str]:
        entry = entries[manager]
        when = seconds(entry.time) if entry.time else 0.0
        return manager.operation, when, manager.name, entry.api_version, manager.subresource

    return [_format_entry(manager, entries[manager]) for manager in sorted(entries, key=rank)]


def decode_entries(given: Any) -> Entries | None:
    """Read managedFields of a client; None if they are invalid."""
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
        entries[manager] = Entry(parse_tree(fields), version, time)
    return entries


def manager_of(name: str, operation: Operation, subresource: str, api_version: str) -> Manager:
    return Manager(name, operation, subresource, "" if operation == "Apply" else api_version)


def _format_entry(manager: Manager, entry: Entry) -> Object:
    return {
        **({"manager": manager.name} if manager.name else {}),
        "operation": manager.operation,
        "apiVersion": entry.api_version,
        **({"time": entry.time} if entry.time else {}),
        "fieldsType": "FieldsV1",
        "fieldsV1": format_tree(entry.fields),
        **({"subresource": manager.subresource} if manager.subresource else {}),
    }


def _is_time(text: str) -> bool:
    try:
        seconds(text)
    except ValueError:
        return False
    return True


MANAGED_FIELDS = "managedFields"
#: metadata that managers can own; the server owns the rest
_OWNED_METADATA = ("generateName", "labels", "annotations", "ownerReferences", "finalizers")
#: limit on unresolved writes, which hold references to old objects
_MOST_WAITING = 8


@attrs.frozen
class Write:
    """Manager, time and subresource of a write; a dry run is not committed."""

    manager: str
    time: str
    subresource: str = ""
    dry_run: bool = False


@attrs.frozen(eq=False)
class _Change:
    """One write with the object before and after it."""

    previous: "ManagedFields | None"
    resource: Resource
    #: None for a new object
    before: Object | None
    after: Object
    write: Write


class ManagedFields:
    """Entries of one version of an object, or the change to compute them from."""

    def __init__(self, origin: Entries | _Change) -> None:
        self._origin = origin
        self._shown: list[Object] | None = None
        self.waiting = 0
        if isinstance(origin, _Change) and origin.previous is not None:
            self.waiting = 1 + origin.previous.waiting
            if self.waiting > _MOST_WAITING:
                self._settle(origin)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ManagedFields) and self.entries == other.entries

    __hash__ = None  # type: ignore[assignment]

    @property
    def entries(self) -> Entries:
        origin = self._origin
        return self._settle(origin) if isinstance(origin, _Change) else origin

    def shown(self) -> list[Object]:
        """Return the entries as metadata.managedFields."""
        if self._shown is None:
            self._shown = format_entries(self.entries)
        return self._shown

    def _settle(self, change: _Change) -> Entries:
        entries = self._origin = _after(change)
        self.waiting = 0
        return entries


def to_json(value: Any) -> Any:
    """Encode managedFields; default function of orjson."""
    if isinstance(value, ManagedFields):
        return value.shown()
    raise TypeError(f"{type(value)} is not JSON")


def entries_of(obj: Object) -> Entries:
    managed = obj["metadata"].get(MANAGED_FIELDS)
    return managed.entries if isinstance(managed, ManagedFields) else {}


def has_other_owners(obj: Object, entries: Entries) -> bool:
    """Return whether the entries of the object differ in more than times."""

    def timeless(entries: Entries) -> Entries:
        return {manager: attrs.evolve(entry, time="") for manager, entry in entries.items()}

    return timeless(entries_of(obj)) != timeless(entries)


def select_owned_part(resource: Resource, obj: Object, subresource: str = "") -> Object:
    """Return the part of an object that a writer of the subresource can own."""
    metadata = obj.get("metadata") or {}
    part: Object = {"metadata": {key: metadata[key] for key in _OWNED_METADATA if key in metadata}}
    if subresource == "status":
        if "status" in obj:
            part["status"] = obj["status"]
        return part
    for key, value in obj.items():
        if key not in ("kind", "apiVersion", "metadata") and (
            key != "status" or "status" not in resource.subresources
        ):
            part[key] = value
    return part


def with_owned_part(resource: Resource, obj: Object, part: Object, subresource: str) -> Object:
    """Replace the part that managers can own."""
    before = select_owned_part(resource, obj, subresource)
    metadata = {k: v for k, v in obj["metadata"].items() if k not in _OWNED_METADATA}
    rest = {key: value for key, value in obj.items() if key not in before}
    return {**rest, **part, "metadata": {**metadata, **part["metadata"]}}


def with_list(obj: Object) -> Object:
    """Return the object with managedFields as JSON, for patches that refer to them."""
    managed = obj["metadata"].get(MANAGED_FIELDS)
    if not isinstance(managed, ManagedFields):
        return obj
    return {**obj, "metadata": {**obj["metadata"], MANAGED_FIELDS: managed.shown()}}


def with_entries(obj: Object, entries: Entries) -> Object:
    metadata = {key: value for key, value in obj["metadata"].items() if key != MANAGED_FIELDS}
    if entries:
        metadata[MANAGED_FIELDS] = ManagedFields(entries)
    return {**obj, "metadata": metadata}


def of_new(resource: Resource, given: Object, stored: Object, write: Write) -> Object:
    """Attach managedFields of the creator; defaults of admission have no owner."""
    managed = ManagedFields(_Change(None, resource, None, given, write))
    metadata = {**stored["metadata"], MANAGED_FIELDS: managed}
    return {**stored, "metadata": metadata}


def of_changed(
    resource: Resource, current: Object, given: Object, after: Object, write: Write
) -> Object:
    """Attach managedFields after a change; return `current` if nothing changes, them included."""
    before = current["metadata"].get(MANAGED_FIELDS)
    base = before
    wanted = None if write.subresource else (given.get("metadata") or {}).get(MANAGED_FIELDS)
    if wanted is not None and wanted is not before:
        # [] and [{}] reset all entries.
        if wanted in ([], [{}]):
            base = None
        else:
            decoded = decode_entries(wanted)
            if decoded and decoded != (before and before.entries):
                base = ManagedFields(decoded)
    if after is current and base is before:
        return current
    metadata = {key: value for key, value in after["metadata"].items() if key != MANAGED_FIELDS}
    if base is not None:
        # An object with untracked managers remains so until a client applies it.
        change = _Change(base, resource, current, after, write)
        metadata[MANAGED_FIELDS] = base if after is current else ManagedFields(change)
    return {**after, "metadata": metadata}


def _after(change: _Change) -> Entries:
    resource, write = change.resource, change.write
    before, after = change.before, change.after
    if before is None:
        before, after = ZERO_VALUES.get(resource.kind, {}), with_defaults(resource.stored, after)
    else:
        before = to_requested_form(resource, before)
    different = comparison(
        select_owned_part(resource, before, write.subresource),
        select_owned_part(resource, to_requested_form(resource, after), write.subresource),
        fields_of(resource),
    )
    entries = {} if change.previous is None else change.previous.entries
    manager = manager_of(write.manager, "Update", write.subresource, resource.api_version)
    return update_entries(entries, manager, resource.api_version, different, write.time)
