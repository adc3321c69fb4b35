"""Access reviews and token requests: objects that the API server evaluates and returns but never
stores.
"""

from typing import Any

from kubedsm_lab.emulator.access.access import AUDIENCE, Access
from kubedsm_lab.emulator.access.rbac import Attributes, User
from kubedsm_lab.emulator.api import decoding
from kubedsm_lab.emulator.api.errors import invalid, invalid_value
from kubedsm_lab.emulator.api.resources import SELF_SUBJECT_ACCESS_REVIEWS, Object, Resource
from kubedsm_lab.emulator.api.values import rfc3339

_USUAL_SECONDS = 3600


def reviewed(resource: Resource, obj: Any, user: User, access: Access) -> Object:
    """Return an access review with its status filled in. Raises ApiError: 400, 422."""
    review = decoding.check_types(resource, obj)
    spec = review.get("spec") or {}
    answer: Object = {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": {},
        "spec": spec,
    }
    match resource.kind:
        case "SelfSubjectReview":
            now = rfc3339(access.tokens.clock.wall())
            del answer["spec"]
            return {
                **answer,
                "metadata": {"creationTimestamp": now},
                "status": {"userInfo": user.info},
            }
        case "SelfSubjectAccessReview":
            pass
        case _:
            user = User(spec.get("user") or "", groups=tuple(spec.get("groups") or ()))
    decision = access.decide(user, _read_attributes(resource, spec))
    reason = {"reason": decision.reason} if decision.reason else {}
    return {**answer, "status": {"allowed": decision.allowed, **reason}}


def warning_with(resource: Resource, access: Access) -> str:
    """Return the warning for access reviews on a cluster without access control; "" for other
    requests.
    """
    if access.is_enforced or resource.group != SELF_SUBJECT_ACCESS_REVIEWS.group:
        return ""
    return "everybody may do everything here: access is enforced with --tls or --token-file"


def token_for(account: Object, obj: Any, access: Access) -> Object:
    """Return a TokenRequest with a new token of the ServiceAccount. Raises ApiError (400)."""
    spec = decoding.check_types(decoding.TOKEN_REQUEST, obj).get("spec") or {}
    seconds = spec.get("expirationSeconds")
    seconds = _USUAL_SECONDS if seconds is None else seconds
    audiences = spec.get("audiences") or [AUDIENCE]
    metadata, now = account["metadata"], access.tokens.clock.wall()
    token = access.tokens.issue(
        metadata["namespace"], metadata["name"], metadata["uid"], tuple(audiences), seconds
    )
    return {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            **{field: metadata[field] for field in ("name", "namespace", "uid")},
            "creationTimestamp": rfc3339(now),
        },
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": None},
        "status": {"token": token, "expirationTimestamp": rfc3339(now + seconds)},
    }


def _read_attributes(resource: Resource, spec: Object) -> Attributes:
    of_resource, of_path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if of_path is not None and of_resource is None:
        return Attributes(of_path.get("verb") or "", path=of_path.get("path") or "/")
    if of_path is not None or of_resource is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        error = invalid_value("spec.resourceAttributes", of_resource, why)
        raise invalid(resource.kind, resource.group, "", [error])
    fields = ("verb", "group", "resource", "subresource", "namespace", "name")
    return Attributes(**{field: of_resource.get(field) or "" for field in fields})
