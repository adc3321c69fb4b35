"""Server-side apply: merge of a configuration into a live object, and the owners of its fields."""

import attrs
import orjson

from kubedsm_lab.emulator.api.errors import ApiError, bad_request
from kubedsm_lab.emulator.api.list_types import Fields, fields_of
from kubedsm_lab.emulator.api.managed_fields.field_sets import (
    FieldSet,
    KeyOfItemError,
    Path,
    check_keys,
    comparison,
    field_set,
    in_order,
    merged,
    share_set,
    shown,
    with_parents,
    without,
)
from kubedsm_lab.emulator.api.managed_fields.tracking import (
    Entries,
    Entry,
    Manager,
    Write,
    manager_of,
    select_owned_part,
    update_entries,
    without_fields,
)
from kubedsm_lab.emulator.api.resources import Object, Resource
from kubedsm_lab.emulator.api.statuses import ZERO_VALUES
from kubedsm_lab.emulator.api.values import without_nulls

#: annotation of client-side apply, whose fields kubectl may take over
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_KUBECTL = "kubectl"
#: manager of all fields from before managers were tracked
_BEFORE_FIRST_APPLY = "before-first-apply"


@attrs.frozen
class Apply:
    """Configuration to apply."""

    config: Object
    write: Write
    #: whether fields of other managers are taken
    force: bool = False


@attrs.frozen
class Applied:
    #: part of the object that managers can own
    part: Object
    entries: Entries


class _ConflictError(Exception):
    def __init__(self, conflicts: list[tuple[Manager, Path]]) -> None:
        super().__init__()
        self.conflicts = conflicts


def applied(resource: Resource, live: Object | None, entries: Entries, apply: Apply) -> Applied:
    """Apply to a live object, or to none. Raises ApiError: 400, 409, 500."""
    _check(resource, apply.config)
    how, version = fields_of(resource), resource.api_version
    if live is None:
        live = ZERO_VALUES.get(resource.kind, {})
    elif not entries:
        entries = _find_owned_before(resource, live, how, apply)
    part = select_owned_part(resource, live, apply.write.subresource)
    wanted = select_owned_part(resource, apply.config, apply.write.subresource)
    try:
        check_keys(wanted, how)
    except KeyOfItemError as error:
        raise _keyless_item_error(resource, apply.config, error) from None
    manager = manager_of(apply.write.manager, "Apply", apply.write.subresource, version)
    try:
        result = _merge_in(part, wanted, how, entries, manager, apply, version)
    except _ConflictError as error:
        conflicts = error.conflicts
        if apply.write.manager == _KUBECTL:
            allowed = _last_applied_fields(part, how)
            conflicts = [c for c in conflicts if c[1] not in allowed]
        if conflicts:
            raise _conflict(conflicts) from None
        by_force = attrs.evolve(apply, force=True)
        result = _merge_in(part, wanted, how, entries, manager, by_force, version)
    annotations = result.part["metadata"].get("annotations") or {}
    if apply.write.manager == _KUBECTL and annotations.get(_LAST_APPLIED):
        annotations = {**annotations, _LAST_APPLIED: _as_annotation(apply.config)}
        metadata = {**result.part["metadata"], "annotations": annotations}
        result = attrs.evolve(result, part={**result.part, "metadata": metadata})
    return result


def _merge_in(
    live: Object,
    wanted: Object,
    how: Fields,
    entries: Entries,
    manager: Manager,
    apply: Apply,
    version: str,
) -> Applied:
    last = entries.get(manager)
    # An empty `metadata` has no owner.
    fields = share_set(field_set(wanted, how) - {("f:metadata",)})
    after = dict(entries)
    after[manager] = Entry(fields, version, last.time if last else "")
    part = merged(live, wanted, how)
    if last is not None:
        owned = FieldSet().union(*(entry.fields for entry in after.values()))
        part = _drop_abandoned_fields(part, how, last.fields, owned)
    change = comparison(live, part, how)
    taken = change.modified | change.added
    conflicts = [
        (other, path)
        for other in sorted(after, key=str)
        if other != manager
        for path in in_order(after[other].fields & taken)
    ]
    if conflicts and not apply.force:
        raise _ConflictError(conflicts)
    after = dict(without_fields(after, taken | change.removed, spared=manager))
    if not fields:
        after.pop(manager, None)
    elif change:
        after[manager] = Entry(fields, version, apply.write.time)
    return Applied(without_nulls(part), after)


def _drop_abandoned_fields(part: Object, how: Fields, last: FieldSet, owned: FieldSet) -> Object:
    """Remove fields that the manager applied last time and that no manager owns now."""
    last = with_parents(last)
    everything = with_parents(field_set(part, how))
    left = with_parents(field_set(without(part, last, how), how))
    doomed = everything - left - with_parents(owned)
    kept = without(part, doomed, how) or {}
    # Content that was not applied, such as defaults, goes only together with its parent.
    left = with_parents(field_set(kept, how))
    doomed = (everything - left) & last
    rest: Object = without(part, doomed, how) or {}
    return {**rest, "metadata": rest.get("metadata") or {}}


def _find_owned_before(resource: Resource, live: Object, how: Fields, apply: Apply) -> Entries:
    zero = select_owned_part(resource, ZERO_VALUES.get(resource.kind, {}), apply.write.subresource)
    change = comparison(zero, select_owned_part(resource, live, apply.write.subresource), how)
    version = resource.api_version
    manager = manager_of(_BEFORE_FIRST_APPLY, "Update", apply.write.subresource, version)
    return update_entries({}, manager, version, change, apply.write.time)


def _last_applied_fields(live: Object, how: Fields) -> FieldSet:
    """Return the fields of the last client-side apply that are unchanged."""
    text = (live["metadata"].get("annotations") or {}).get(_LAST_APPLIED)
    try:
        last = orjson.loads(text or "null")
    except orjson.JSONDecodeError:
        return frozenset()
    if not isinstance(last, dict):
        return frozenset()
    change = comparison(last, live, how)
    return field_set(last, how) - change.modified - change.added - change.removed


def _as_annotation(config: Object) -> str:
    metadata = config.get("metadata") or {}
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop(_LAST_APPLIED, None)
    plain = {**config, "metadata": {**metadata, "annotations": annotations}}
    return orjson.dumps(plain, option=orjson.OPT_SORT_KEYS).decode() + "\n"


def _check(resource: Resource, config: Object) -> None:
    version = config.get("apiVersion") or ""
    if version != resource.api_version or config.get("kind") != resource.kind:
        group, _, short = version.rpartition("/")
        kind = f"{group}/{short}, Kind={config.get('kind') or ''}"
        raise bad_request(f"invalid object type: {kind}")
    if (config.get("metadata") or {}).get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")


def _keyless_item_error(resource: Resource, config: Object, error: KeyOfItemError) -> ApiError:
    metadata = config.get("metadata") or {}
    where = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    kind = f"{resource.group}/{resource.version}, Kind={resource.kind}"
    return ApiError(500, "", f"failed to create typed patch object ({where}; {kind}): {error}")


def _conflict(conflicts: list[tuple[Manager, Path]]) -> ApiError:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {manager}",
            "field": shown(path),
        }
        for manager, path in conflicts
    ]
    if len(conflicts) == 1:
        manager, path = conflicts[0]
        text = f"1 conflict: conflict with {manager}: {shown(path)}"
    else:
        lines: dict[str, list[str]] = {}
        for manager, path in conflicts:
            lines.setdefault(str(manager), []).append(f"- {shown(path)}")
        listed = [
            line for manager in lines for line in (f"conflicts with {manager}:", *lines[manager])
        ]
        text = f"{len(conflicts)} conflicts: " + "\n".join(listed)
    return ApiError(409, "Conflict", f"Apply failed with {text}", {"causes": causes})
