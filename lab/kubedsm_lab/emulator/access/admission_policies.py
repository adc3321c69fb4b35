"""ValidatingAdmissionPolicies, evaluated by cel-python for each update of an object.

Not emulated: parameters, selectors, operations other than UPDATE, actions other than Deny.
"""

from collections.abc import Iterator
from functools import lru_cache

import attrs
import orjson

from kubedsm_lab.emulator.access.rbac import User
from kubedsm_lab.emulator.api.errors import ApiError, forbidden
from kubedsm_lab.emulator.api.policies import Expressions, matches_request
from kubedsm_lab.emulator.api.resources import (
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    Object,
    Resource,
)
from kubedsm_lab.emulator.api.store import Store


@attrs.frozen
class Update:
    """Update of an object or subresource: the variables that CEL expressions refer to."""

    resource: Resource
    before: Object
    after: Object
    user: User
    subresource: str = ""

    def variables(self) -> Object:
        return {
            "object": self.after,
            "oldObject": self.before,
            "request": {
                "userInfo": self.user.info,
                "subResource": self.subresource,
                "operation": "UPDATE",
            },
        }


class Policy:
    """ValidatingAdmissionPolicy with compiled CEL expressions; an expression that fails to evaluate
    denies the update.
    """

    def __init__(self, spec: Object) -> None:
        self._expressions = Expressions(spec)
        self._validations = [
            (
                self._expressions.compile_text(v["expression"]),
                v.get("message") or f"failed expression: {v['expression']}",
            )
            for v in spec["validations"]
        ]

    def denials(self, update: Update) -> list[str]:
        """Return the messages of the policy's validations that deny the update; empty
        if all pass.
        """
        known = self._expressions.bind_variables(update.variables())
        if known is None:
            return []
        evaluate = self._expressions.evaluate
        return [message for program, message in self._validations if not evaluate(program, known)]


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


def check_update(policies: list[tuple[str, str, Object]], update: Update) -> None:
    """Evaluate all policies on an update. Raises ApiError (422) if one denies it."""
    for name, binding, spec in policies:
        for message in _compile_policy(orjson.dumps(spec)).denials(update):
            why = (
                f"ValidatingAdmissionPolicy '{name}' with binding '{binding}' denied request:"
                f" {message}"
            )
            error = forbidden(update.resource, update.before["metadata"]["name"], why)
            details = {**(error.details or {}), "causes": [{"message": why}]}
            raise ApiError(422, "Invalid", error.message, details)


@lru_cache(maxsize=16)
def _compile_policy(spec: bytes) -> Policy:
    return Policy(orjson.loads(spec))
