"""The Table that `kubectl get` asks a server for: columns, and a row for every object.

What a row holds is in `columns`; here is its frame. Clients ask for it in their Accept header,
`application/json;as=Table;v=v1;g=meta.k8s.io`.
"""

from collections.abc import Iterable
from typing import Literal

from kubedsm_lab.emulator.api.resources import Object, Resource
from kubedsm_lab.emulator.http.columns import printer_of
from kubedsm_lab.emulator.http.printer import Column

#: what comes with a row: the object's metadata, the whole object, or nothing
Include = Literal["Metadata", "Object", "None"]

_META = "meta.k8s.io/v1"


def as_table(
    resource: Resource,
    objects: Iterable[Object],
    list_metadata: Object,
    *,
    now: float,
    include: Include = "Metadata",
) -> Object:
    """A Table of the objects.

    `list_metadata` is the list's (its resourceVersion, continue and remainingItemCount), or empty
    in an answer that is one object. `now`, in seconds since the epoch, is what ages count to.
    """
    printer = printer_of(resource)
    return {
        "kind": "Table",
        "apiVersion": _META,
        "metadata": list_metadata,
        "columnDefinitions": [_definition(column) for column in printer.columns],
        "rows": [
            {
                "cells": printer.cells(obj, now),
                **_conditions(resource, obj),
                **_included(resource, obj, include),
            }
            for obj in objects
        ],
    }


def _definition(column: Column) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": "name" if column.name == "Name" else "",
        "description": column.description,
        "priority": 1 if column.wide else 0,
    }


def _conditions(resource: Resource, obj: Object) -> Object:
    """kubectl may hide rows of completed pods, so those are marked."""
    phase = obj.get("status", {}).get("phase") if resource.kind == "Pod" else None
    if phase not in ("Succeeded", "Failed"):
        return {}
    return {"conditions": [{"type": "Completed", "status": "True", "reason": phase}]}


def _included(resource: Resource, obj: Object, include: Include) -> Object:
    if include == "None":
        return {}
    if include == "Object":
        whole = {"kind": resource.kind, "apiVersion": resource.api_version}
        return {"object": {**whole, **obj}}
    partial = {"kind": "PartialObjectMetadata", "apiVersion": _META}
    return {"object": {**partial, "metadata": obj["metadata"]}}
