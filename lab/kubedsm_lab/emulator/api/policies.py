"""Admission policies, evaluated by cel-python: mutations of new objects, validations of updates.

Mutations are evaluated for created objects of every client, controllers included; validations for
updates over HTTP. Not emulated: other operations, mutations of the type ApplyConfiguration, and
parameters, selectors and actions other than Deny of validations.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

import orjson

from kubedsm_lab.emulator.api.errors import ApiError, forbidden
from kubedsm_lab.emulator.api.patching import JSON_PATCH, patched
from kubedsm_lab.emulator.api.resources import (
    MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICY_BINDINGS,
    NAMESPACES,
    SERVED,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    Object,
    Resource,
)
from kubedsm_lab.emulator.api.selectors import label_selector_of
from kubedsm_lab.emulator.api.store import Store


class Expressions:
    """CEL expressions of a policy, compiled at their first use: match conditions, variables, and
    those of its validations or mutations.
    """

    def __init__(self, spec: Object) -> None:
        # Imported on demand: importing takes 0.1 s, and few clusters have policies.
        import celpy  # noqa: PLC0415

        self._celpy: Any = celpy
        self._environment = celpy.Environment(annotations={"JSONPatch": celpy.celtypes.MessageType})
        self._programs: dict[str, Any] = {}
        self._spec = spec

    def _compile_text(self, text: str) -> Any:
        if text not in self._programs:
            self._programs[text] = self._environment.program(self._environment.compile(text))
        return self._programs[text]

    def evaluate(self, text: str, known: Mapping[str, Any]) -> Any:
        """Return the value of an expression as JSON; None if the evaluation fails."""
        try:
            return _as_json(self._compile_text(text).evaluate(dict(known)))
        except self._celpy.CELEvalError:
            return None

    def bind_variables(self, given: Object) -> dict[str, Any] | None:
        """Return the variables of an evaluation; None if a match condition fails."""
        celpy = self._celpy
        known: dict[str, Any] = {name: celpy.json_to_cel(value) for name, value in given.items()}
        conditions = self._spec.get("matchConditions") or ()
        if not all(self.evaluate(condition["expression"], known) for condition in conditions):
            return None  # conditions cannot refer to variables
        values: dict[Any, Any] = {}
        known["variables"] = celpy.celtypes.MapType({})
        for variable in self._spec.get("variables") or ():
            program = self._compile_text(variable["expression"])
            with suppress(celpy.CELEvalError):  # expressions with a reference to the variable fail
                values[celpy.celtypes.StringType(variable["name"])] = program.evaluate(known)
            known["variables"] = celpy.celtypes.MapType(values)
        return known


@lru_cache(maxsize=16)
def _read_expressions(spec: bytes) -> Expressions:
    return Expressions(orjson.loads(spec))


def _expressions_of(spec: Object) -> Expressions:
    """Return the expressions in the spec of a policy, which stay compiled."""
    return _read_expressions(orjson.dumps(spec))


def _as_json(value: Any) -> Any:
    """Convert a CEL value to plain JSON types."""
    if isinstance(value, dict):
        return {str(key): _as_json(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_as_json(each) for each in value]
    return str(value) if isinstance(value, str) else value


def _list_bound(
    store: Store, policies: Resource, bindings: Resource
) -> Iterator[tuple[Object, Object]]:
    """Yield each binding after its policy, if that exists."""
    for binding in store.list(bindings):
        policy = store.get(policies, "", binding["spec"]["policyName"])
        if policy is not None:
            yield policy, binding


def _matches_request(
    constraints: Object, operation: str, resource: Resource, subresource: str = ""
) -> bool:
    """Return True if a resource rule of the constraints matches the request."""
    plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
    return any(
        not {operation, "*"}.isdisjoint(rule["operations"])
        and not {resource.group, "*"}.isdisjoint(rule["apiGroups"])
        and not {resource.version, "*"}.isdisjoint(rule["apiVersions"])
        and not {plural, "*/*"}.isdisjoint(rule["resources"])
        for rule in constraints.get("resourceRules") or ()
    )


def mutate_new(store: Store, resource: Resource, obj: Object) -> Object:
    """Return a new object after all bound mutating policies. Raises ApiError (403).

    As on an API server, expressions see one entry of managedFields, with the time of the request.
    """
    bound = _list_bound(store, MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS)
    for policy, binding in bound:
        if not _selects(store, policy, binding, resource, obj):
            continue
        params = _find_parameter(store, policy["spec"], binding["spec"])
        if params is None:
            continue
        time = {"manager": "emulator", "operation": "Update", "time": store.now()}
        shown = {**obj, "metadata": {**obj["metadata"], "managedFields": [time]}}
        given = {"object": shown, "params": params, "request": {"operation": "CREATE"}}
        patches = _list_patches(policy["spec"], given)
        if patches is not None:
            obj = patched(resource, obj, patches, JSON_PATCH)
        elif policy["spec"].get("failurePolicy") != "Ignore":
            name = policy["metadata"]["name"]
            why = (
                f"policy '{name}' with binding '{binding['metadata']['name']}' cannot be evaluated"
            )
            raise forbidden(resource, obj["metadata"].get("name", ""), why)
    return obj


def _selects(
    store: Store, policy: Object, binding: Object, resource: Resource, obj: Object
) -> bool:
    """Return True if policy and binding match the creation of the object."""
    constraints = policy["spec"]["matchConstraints"]
    if not _matches_request(constraints, "CREATE", resource):
        return False
    namespace = store.get(NAMESPACES, "", obj["metadata"].get("namespace", ""))
    of_namespace = (namespace or {"metadata": {}})["metadata"].get("labels")
    of_object = obj["metadata"].get("labels")
    return all(
        label_selector_of(given.get("namespaceSelector") or {}).matches(of_namespace)
        and label_selector_of(given.get("objectSelector") or {}).matches(of_object)
        for given in (constraints, binding["spec"].get("matchResources") or {})
    )


def _find_parameter(store: Store, policy: Object, binding: Object) -> Object | None:
    """Return the parameter object; {} without a reference, None if absent and not required.

    Raises ApiError (403) for an absent parameter with the action Deny.
    """
    reference, kind = binding.get("paramRef"), policy.get("paramKind")
    if not reference or not kind:
        return {}
    resource = next(
        each
        for each in SERVED
        if (each.api_version, each.kind) == (kind["apiVersion"], kind["kind"])
    )
    found = store.get(resource, reference.get("namespace", ""), reference["name"])
    if found is None and reference.get("parameterNotFoundAction") != "Allow":
        raise forbidden(resource, reference["name"], "no params found for policy binding")
    return found


def _list_patches(spec: Object, given: Object) -> list[Object] | None:
    """Return the JSON patch operations of a mutating policy; None if an expression fails."""
    if any(mutation["patchType"] != "JSONPatch" for mutation in spec["mutations"]):
        raise ApiError(501, "NotImplemented", "only mutations of type JSONPatch are emulated")
    expressions = _expressions_of(spec)
    known = expressions.bind_variables(given)
    found: list[Object] = []
    for mutation in spec["mutations"] if known is not None else ():
        patches = expressions.evaluate(mutation["jsonPatch"]["expression"], known or {})
        if patches is None:
            return None
        found += patches
    return found


def list_enforced(
    store: Store, resource: Resource, subresource: str
) -> Iterator[tuple[Object, Object]]:
    """Yield the validating policies, each with its binding, that apply to updates of the
    resource.
    """
    for policy, binding in _list_bound(
        store, VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS
    ):
        constraints = policy["spec"]["matchConstraints"]
        matching = _matches_request(constraints, "UPDATE", resource, subresource)
        if matching and "Deny" in binding["spec"]["validationActions"]:
            yield policy, binding


def check_update(
    policies: Iterable[tuple[Object, Object]],
    resource: Resource,
    before: Object,
    after: Object,
    user: Object,
    subresource: str = "",
) -> None:
    """Evaluate policies on an update by a user, as `userInfo`. Raises ApiError (422) if one denies
    it.
    """
    for policy, binding in policies:
        for message in list_denials(policy["spec"], before, after, user, subresource):
            why = (
                f"ValidatingAdmissionPolicy '{policy['metadata']['name']}' with binding"
                f" '{binding['metadata']['name']}' denied request: {message}"
            )
            error = forbidden(resource, before["metadata"]["name"], why)
            details = {**(error.details or {}), "causes": [{"message": why}]}
            raise ApiError(422, "Invalid", error.message, details)


def list_denials(
    spec: Object, before: Object, after: Object, user: Object, subresource: str
) -> Iterator[str]:
    """Yield the messages of the validations that deny an update, also by failing to evaluate."""
    request = {"userInfo": user, "subResource": subresource, "operation": "UPDATE"}
    expressions = _expressions_of(spec)
    known = expressions.bind_variables({"object": after, "oldObject": before, "request": request})
    for validation in spec["validations"] if known is not None else ():
        if not expressions.evaluate(validation["expression"], known or {}):
            yield validation.get("message") or f"failed expression: {validation['expression']}"
