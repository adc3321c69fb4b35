"""ValidatingAdmissionPolicies, evaluated by cel-python for each update of an object.

Not emulated: parameters, selectors, operations other than UPDATE, actions other than Deny.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any

import attrs
import orjson

from kubedsm_lab.emulator.access.rbac import User
from kubedsm_lab.emulator.api.errors import ApiError, forbidden
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
        # Imported on demand: importing takes 0.1 s, and few clusters have policies.
        import celpy  # noqa: PLC0415

        self._celpy = celpy
        environment = celpy.Environment()

        def program(text: str) -> Any:
            return environment.program(environment.compile(text))

        self._conditions = [program(c["expression"]) for c in spec.get("matchConditions", ())]
        self._variables = {v["name"]: program(v["expression"]) for v in spec.get("variables", ())}
        self._validations = [
            (program(v["expression"]), v.get("message") or f"failed expression: {v['expression']}")
            for v in spec["validations"]
        ]

    def denials(self, update: Update) -> list[str]:
        """Return the messages of the policy's validations that deny the update; empty
        if all pass.
        """
        celpy = self._celpy
        known: dict[str, Any] = {
            name: celpy.json_to_cel(value) for name, value in update.variables().items()
        }

        def holds(program: Any) -> bool:
            try:
                return bool(program.evaluate(known))
            except celpy.CELEvalError:
                return False

        if not all(map(holds, self._conditions)):
            return []
        variables: dict[Any, Any] = {}
        known["variables"] = celpy.celtypes.MapType({})
        for name, program in self._variables.items():
            with suppress(celpy.CELEvalError):  # validations with a reference to the variable fail
                variables[celpy.celtypes.StringType(name)] = program.evaluate(known)
            known["variables"] = celpy.celtypes.MapType(variables)
        return [message for program, message in self._validations if not holds(program)]


def list_enforced_policies(
    store: Store, resource: Resource, subresource: str
) -> Iterator[tuple[str, str, Object]]:
    """Yield name, binding and spec of the policies that apply to updates of the resource."""
    for binding in store.list(VALIDATING_ADMISSION_POLICY_BINDINGS):
        name = binding["spec"]["policyName"]
        policy = store.get(VALIDATING_ADMISSION_POLICIES, "", name)
        if policy is None or "Deny" not in binding["spec"]["validationActions"]:
            continue
        rules = policy["spec"]["matchConstraints"].get("resourceRules", ())
        if any(_matches(rule, resource, subresource) for rule in rules):
            yield name, binding["metadata"]["name"], policy["spec"]


def _matches(rule: Object, resource: Resource, subresource: str) -> bool:
    plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
    return (
        not {"UPDATE", "*"}.isdisjoint(rule["operations"])
        and not {resource.group, "*"}.isdisjoint(rule["apiGroups"])
        and not {resource.version, "*"}.isdisjoint(rule["apiVersions"])
        and not {plural, "*/*"}.isdisjoint(rule["resources"])
    )


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
