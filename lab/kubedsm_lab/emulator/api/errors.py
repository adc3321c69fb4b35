"""Errors of the API server, as Status objects in kube-apiserver's words.

Reasons, messages and details follow k8s.io/apimachinery/pkg/api/errors, those of fields
k8s.io/apimachinery/pkg/util/validation/field.
"""

from collections.abc import Iterable, Sequence

import attrs
import orjson

from kubedsm_lab.emulator.api.resources import Object, Resource

STALE = (
    "the object has been modified; "
    "please apply your changes to the latest version and try again"
)  # fmt: skip


class ApiError(Exception):
    """Rejected request, with the Kubernetes Status object of the response."""

    def __init__(
        self, status: int, reason: str, message: str, details: Object | None = None
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details

    def body(self) -> Object:
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            **({"reason": self.reason} if self.reason else {}),
            **({} if self.details is None else {"details": self.details}),
            "code": self.status,
        }


def success(*, details: Object | None = None, code: int | None = None) -> Object:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        **({} if details is None else {"details": details}),
        **({} if code is None else {"code": code}),
    }


def identity(resource: Resource, name: str, *, kind: str = "") -> Object:
    """Return the `details` of a Status that identify an object by name, group and kind."""
    return {
        **({"name": name} if name else {}),
        **({"group": resource.group} if resource.group else {}),
        "kind": kind or resource.plural,
    }


def not_found(resource: Resource, name: str) -> ApiError:
    message = f'{resource.qualified} "{name}" not found'
    return ApiError(404, "NotFound", message, identity(resource, name))


def already_exists(resource: Resource, name: str) -> ApiError:
    message = f'{resource.qualified} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, identity(resource, name))


def conflict(resource: Resource, name: str, why: str, *, kind: str = "") -> ApiError:
    """Return a 409 (Conflict); `kind` replaces the resource in the message, as in pods/binding."""
    what = resource.qualified
    if kind:
        what = f"{kind}.{resource.group}" if resource.group else kind
    message = f'Operation cannot be fulfilled on {what} "{name}": {why}'
    return ApiError(409, "Conflict", message, identity(resource, name, kind=kind))


def check_stored(resource: Resource, metadata: Object, given: Object, *fields: str) -> None:
    """Raise ApiError (409, of the storage layer) if a given field differs from the stored one."""
    for field in fields:
        wanted, what = given.get(field), {"uid": "UID"}.get(field, "ResourceVersion")
        if wanted and wanted != metadata[field]:
            parts = (resource.plural, metadata.get("namespace", ""), metadata["name"])
            key = "/".join(filter(None, parts))
            why = (
                f"StorageError: invalid object, Code: 4, Key: /registry/{key}, "
                f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in "
                f"precondition: {wanted}, {what} in object meta: {metadata[field]}"
            )
            raise conflict(resource, metadata["name"], why)


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def cannot_be_handled(resource: Resource, why: str) -> ApiError:
    """Return a 400 (BadRequest) for a body that is no object of the expected kind."""
    kind, version = resource.kind, resource.version
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


def forbidden(
    resource: Resource, name: str, why: str, causes: Sequence["FieldError"] = ()
) -> ApiError:
    what = f'{resource.qualified} "{name}"' if name else resource.qualified
    details = identity(resource, name)
    if causes:
        details["causes"] = [cause.body() for cause in causes]
    return ApiError(403, "Forbidden", f"{what} is forbidden: {why}", details)


def method_not_allowed() -> ApiError:
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, {})


def unsupported_media_type(accepted: Iterable[str]) -> ApiError:
    message = (
        "the body of the request was in an unknown format - "
        f"accepted media types include: {', '.join(accepted)}"
    )
    return ApiError(415, "UnsupportedMediaType", message, {})


def disruption_budget(cause: str, *, retry_after: int = 0) -> ApiError:
    """Return a 429 (TooManyRequests) for an eviction that a PodDisruptionBudget refuses."""
    details: Object = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return ApiError(429, "TooManyRequests", message, details)


@attrs.frozen
class FieldError:
    """Validation error of one object field, reported as a cause in a Status."""

    reason: str
    field: str
    message: str

    def body(self) -> Object:
        return {"reason": self.reason, "message": self.message, "field": self.field}


def invalid_value(field: str, value: object, why: str) -> FieldError:
    return FieldError("FieldValueInvalid", field, f"Invalid value: {_format_value(value)}: {why}")


def required(field: str, why: str = "") -> FieldError:
    return FieldError("FieldValueRequired", field, "Required value" + (f": {why}" if why else ""))


def not_supported(field: str, value: object, supported: Iterable[str]) -> FieldError:
    choices = ", ".join(_format_value(choice) for choice in supported)
    message = f"Unsupported value: {_format_value(value)}: supported values: {choices}"
    return FieldError("FieldValueNotSupported", field, message)


def too_long(field: str, limit: int) -> FieldError:
    message = f"Too long: may not be more than {limit} bytes"
    return FieldError("FieldValueTooLong", field, message)


def may_not(field: str, why: str) -> FieldError:
    return FieldError("FieldValueForbidden", field, f"Forbidden: {why}")


def invalid(kind: str, group: str, name: str, errors: Sequence[FieldError]) -> ApiError:
    """Return a 422 (Invalid) with one cause per invalid field."""
    texts = [f"{error.field}: {error.message}" for error in errors]
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    qualified = f"{kind}.{group}" if group else kind
    details: Object = {"name": name} if name else {}
    if group:
        details["group"] = group
    details |= {"kind": kind, "causes": [error.body() for error in errors]}
    return ApiError(422, "Invalid", f'{qualified} "{name}" is invalid: {text}', details)


def _format_value(value: object) -> str:
    return value if isinstance(value, Verbatim) else orjson.dumps(value).decode()


class Verbatim(str):
    """String literal that error messages show without quotes."""

    __slots__ = ()
