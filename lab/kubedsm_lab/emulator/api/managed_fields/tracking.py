"""managedFields that are worked out when somebody looks at them, from the writes since they were.

Most objects of an emulated cluster are written more often than they are looked at, and what a
write changed can be found out later: what was stored before it and after it never changes.
"""

from typing import Any

import attrs

from kubedsm_lab.emulator.api.defaulting import with_defaults
from kubedsm_lab.emulator.api.forms import requested_form
from kubedsm_lab.emulator.api.list_types import fields_of
from kubedsm_lab.emulator.api.managed_fields import entries as entry_lists
from kubedsm_lab.emulator.api.managed_fields.entries import Entries, manager_of
from kubedsm_lab.emulator.api.managed_fields.walks import comparison
from kubedsm_lab.emulator.api.managed_fields.zero_values import ZERO_VALUES
from kubedsm_lab.emulator.api.resources import Object, Resource

MANAGED_FIELDS = "managedFields"
#: of metadata, what somebody can own; the rest is the server's
_OWNED_METADATA = ("generateName", "labels", "annotations", "ownerReferences", "finalizers")
#: writes that wait to be worked out, so that old objects are not kept for long
_MOST_WAITING = 8


@attrs.frozen
class Write:
    """Who wrote, through which subresource, and when."""

    manager: str
    time: str
    subresource: str = ""


@attrs.frozen(eq=False)
class _Change:
    """What was written onto what."""

    previous: "ManagedFields | None"
    resource: Resource
    #: None for a new object
    before: Object | None
    after: Object
    write: Write


class ManagedFields:
    """The entries of one version of an object, or the change that they are worked out from."""

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
        """As metadata.managedFields has them."""
        if self._shown is None:
            self._shown = entry_lists.shown(self.entries)
        return self._shown

    def _settle(self, change: _Change) -> Entries:
        entries = self._origin = _after(change)
        self.waiting = 0
        return entries


def to_json(value: Any) -> Any:
    """What an encoder of JSON takes in place of a value that it does not know."""
    if isinstance(value, ManagedFields):
        return value.shown()
    raise TypeError(f"{type(value)} is not JSON")


def entries_of(obj: Object) -> Entries:
    managed = obj["metadata"].get(MANAGED_FIELDS)
    return managed.entries if isinstance(managed, ManagedFields) else {}


def owned_part(resource: Resource, obj: Object, subresource: str = "") -> Object:
    """What of an object can be owned by somebody who writes it there."""
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
    """The object with another such part."""
    before = owned_part(resource, obj, subresource)
    metadata = {k: v for k, v in obj["metadata"].items() if k not in _OWNED_METADATA}
    rest = {key: value for key, value in obj.items() if key not in before}
    return {**rest, **part, "metadata": {**metadata, **part["metadata"]}}


def with_list(obj: Object) -> Object:
    """The object with its managedFields as JSON has them, for patches that look into them."""
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
    """A new object with the managedFields of whoever created it, who is not admission's owner."""
    managed = ManagedFields(_Change(None, resource, None, given, write))
    metadata = {**stored["metadata"], MANAGED_FIELDS: managed}
    return {**stored, "metadata": metadata}


def of_changed(
    resource: Resource, current: Object, given: Object, after: Object, write: Write
) -> Object:
    """The changed object with its managedFields; `current` itself if not even they change."""
    before = current["metadata"].get(MANAGED_FIELDS)
    base = before
    wanted = None if write.subresource else (given.get("metadata") or {}).get(MANAGED_FIELDS)
    if wanted is not None and wanted is not before:
        if entry_lists.is_reset(wanted):
            base = None
        else:
            decoded = entry_lists.decoded(wanted)
            if decoded and decoded != (before and before.entries):
                base = ManagedFields(decoded)
    if after is current and base is before:
        return current
    metadata = {key: value for key, value in after["metadata"].items() if key != MANAGED_FIELDS}
    if base is not None:
        # An object whose managers are not tracked stays so until somebody applies it.
        change = _Change(base, resource, current, after, write)
        metadata[MANAGED_FIELDS] = base if after is current else ManagedFields(change)
    return {**after, "metadata": metadata}


def _after(change: _Change) -> Entries:
    resource, write = change.resource, change.write
    before, after = change.before, change.after
    if before is None:
        before, after = ZERO_VALUES.get(resource.kind, {}), with_defaults(resource.stored, after)
    else:
        before = requested_form(resource, before)
    different = comparison(
        owned_part(resource, before, write.subresource),
        owned_part(resource, requested_form(resource, after), write.subresource),
        fields_of(resource),
    )
    entries = {} if change.previous is None else change.previous.entries
    manager = manager_of(write.manager, "Update", write.subresource, resource.api_version)
    return entry_lists.updated(entries, manager, resource.api_version, different, write.time)
