"""ValidatingAdmissionPolicies: their CEL expressions are evaluated for each update of an object.

The library cel-python evaluates them; where it is not installed, policies are kept and ignored.
Not emulated: parameters, selectors, other operations than UPDATE, actions other than Deny.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
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
    """Update of an object or of a subresource, as the expressions see it."""

    resource: Resource
    before: Object
    after: Object
    user: User
    subresource: str = ""

    def variables(self) -> Object:
        request = {"userInfo": self.user.info, "subResource": self.subresource}
        return {
            "object": _without_managers(self.after),
            "oldObject": _without_managers(self.before),
            "request": {**request, "operation": "UPDATE"},
        }


class Policy:
    """Compiled expressions of one policy. An error in an expression denies the update."""

    def __init__(self, spec: Object) -> None:
        import celpy  # noqa: PLC0415 - an extra: only clusters with policies need it

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
        """Return the messages of the validations that do not hold."""
        from celpy import celtypes  # noqa: PLC0415
        from celpy.adapter import json_to_cel  # noqa: PLC0415
        from celpy.evaluation import CELEvalError  # noqa: PLC0415

        known: dict[str, Any] = {
            name: json_to_cel(value) for name, value in update.variables().items()
        }

        def holds(program: Any) -> bool:
            try:
                return bool(program.evaluate(known))
            except CELEvalError:
                return False

        if not all(map(holds, self._conditions)):
            return []
        variables: dict[str, Any] = {}
        known["variables"] = json_to_cel({})
        for name, program in self._variables.items():
            with suppress(CELEvalError):  # validations that refer to the variable fail
                variables[name] = program.evaluate(known)
            known["variables"] = celtypes.MapType(
                {celtypes.StringType(key): value for key, value in variables.items()}
            )
        return [message for program, message in self._validations if not holds(program)]


def enforced_policies(
    store: Store, resource: Resource, subresource: str
) -> list[tuple[str, str, Object]]:
    """Return name, binding and spec of the policies for updates of this resource."""
    found = list(_enforced(store, resource, subresource))
    return found if found and find_spec("celpy") is not None else []


def _enforced(
    store: Store, resource: Resource, subresource: str
) -> Iterator[tuple[str, str, Object]]:
    for binding in store.list(VALIDATING_ADMISSION_POLICY_BINDINGS):
        name = binding["spec"]["policyName"]
        policy = store.get(VALIDATING_ADMISSION_POLICIES, "", name)
        if policy is None or "Deny" not in binding["spec"]["validationActions"]:
            continue
        rules = policy["spec"]["matchConstraints"].get("resourceRules", ())
        if any(_matches(rule, resource, subresource) for rule in rules):
            yield name, binding["metadata"]["name"], policy["spec"]


def _matches(rule: Object, resource: Resource, subresource: str) -> bool:
    wanted = f"{resource.plural}/{subresource}" if subresource else resource.plural
    return (
        not {"UPDATE", "*"}.isdisjoint(rule["operations"])
        and not {resource.group, "*"}.isdisjoint(rule["apiGroups"])
        and not {resource.version, "*"}.isdisjoint(rule["apiVersions"])
        and not {wanted, "*/*"}.isdisjoint(rule["resources"])
    )


def check_update(policies: list[tuple[str, str, Object]], update: Update) -> None:
    """Raises ApiError (422) if a policy denies the update."""
    for name, binding, spec in policies:
        for message in _compiled(orjson.dumps(spec)).denials(update):
            why = (
                f"ValidatingAdmissionPolicy '{name}' with binding '{binding}' denied request:"
                f" {message}"
            )
            told = forbidden(update.resource, update.before["metadata"]["name"], why)
            details = {**(told.details or {}), "causes": [{"message": why}]}
            raise ApiError(422, "Invalid", told.message, details)


@lru_cache(maxsize=16)
def _compiled(spec: bytes) -> Policy:
    return Policy(orjson.loads(spec))


def _without_managers(obj: Object) -> Object:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}
