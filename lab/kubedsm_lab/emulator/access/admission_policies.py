"""ValidatingAdmissionPolicies, evaluated by cel-python for each update of an object.

Not emulated: parameters, selectors, operations other than UPDATE, actions other than Deny.
"""

from collections.abc import Iterator

from kubedsm_lab.emulator.access.rbac import User
from kubedsm_lab.emulator.api.errors import ApiError, forbidden
from kubedsm_lab.emulator.api.policies import expressions_of, matches_request
from kubedsm_lab.emulator.api.resources import (
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    Object,
    Resource,
)
from kubedsm_lab.emulator.api.store import Store


def list_enforced_policies(
    store: Store, resource: Resource, subresource: str
) -> Iterator[tuple[str, str, Object]]:
    """Yield name, binding and spec of the policies that apply to updates of the resource."""
    for binding in store.list(VALIDATING_ADMISSION_POLICY_BINDINGS):
        name = binding["spec"]["policyName"]
        policy = store.get(VALIDATING_ADMISSION_POLICIES, "", name)
        if policy is None or "Deny" not in binding["spec"]["validationActions"]:
            continue
        constraints = policy["spec"]["matchConstraints"]
        if matches_request(constraints, "UPDATE", resource, subresource):
            yield name, binding["metadata"]["name"], policy["spec"]


def check_update(
    policies: list[tuple[str, str, Object]],
    resource: Resource,
    before: Object,
    after: Object,
    user: User,
    subresource: str = "",
) -> None:
    """Evaluate all policies on an update. Raises ApiError (422) if one denies it.

    An expression that fails to evaluate denies the update.
    """
    request = {"userInfo": user.info, "subResource": subresource, "operation": "UPDATE"}
    given = {"object": after, "oldObject": before, "request": request}
    for name, binding, spec in policies:
        expressions = expressions_of(spec)
        known = expressions.bind_variables(given)
        for validation in spec["validations"] if known is not None else ():
            if expressions.evaluate(validation["expression"], known or {}):
                continue
            message = validation.get("message") or f"failed expression: {validation['expression']}"
            why = (
                f"ValidatingAdmissionPolicy '{name}' with binding '{binding}' denied request:"
                f" {message}"
            )
            error = forbidden(resource, before["metadata"]["name"], why)
            details = {**(error.details or {}), "causes": [{"message": why}]}
            raise ApiError(422, "Invalid", error.message, details)
