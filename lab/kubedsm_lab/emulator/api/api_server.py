"""In-memory API server: the verbs of kube-apiserver as synchronous methods.

Every method either commits the whole request, or raises ApiError and changes nothing. Objects are
never changed in place. Returned objects have the stored API version.
"""

import random
from typing import Any

from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.api import admission, decoding, errors, patching, subresources, updating
from kubedsm_lab.emulator.api.defaulting import SYSTEM_CLASSES
from kubedsm_lab.emulator.api.deletion import (
    Deletion,
    check_preconditions,
    is_deletion_complete,
    plan_deletion,
)
from kubedsm_lab.emulator.api.forms import to_requested_form, to_stored_form
from kubedsm_lab.emulator.api.object_state import key_of
from kubedsm_lab.emulator.api.resources import (
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    SERVICES,
    Object,
    Resource,
)
from kubedsm_lab.emulator.api.selectors import selection
from kubedsm_lab.emulator.api.store import Objects, Store
from kubedsm_lab.emulator.api.subresources import bound, charge_budget, with_disruption_target
from kubedsm_lab.emulator.api.validation import validate_change
from kubedsm_lab.emulator.api.values import without_null_fields

_CREATED = 201
#: length of a generated name without its random suffix
_LONGEST_BASE = 58
#: attempts with another random suffix if a generated name is taken
_NAME_ATTEMPTS = 8


class ApiServer:
    """API server over a store: creates, reads, updates, patches, binds, evicts, deletes objects."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self.clock = clock
        self.store = Store(clock, rng)
        for name in admission.NAMESPACES_AT_START:
            self.create(NAMESPACES, {"metadata": {"name": name}})
        for priority_class in SYSTEM_CLASSES:
            self.create(PRIORITY_CLASSES, priority_class)
        # No watch can begin before the cluster did.
        self.store.compact()

    def create(
        self,
        resource: Resource,
        obj: Object,
        *,
        namespace: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Admit and store a new object; return the object with all defaults.

        Raises ApiError: 400, 403, 404 (no such namespace), 409 (name taken), 422.
        """
        given = decoding.check_types(resource, obj).get("metadata") or {}
        if given.get("resourceVersion"):
            raise errors.ApiError(
                500, "", "resourceVersion should not be set on objects to be created"
            )
        base = given.get("generateName") or ""
        for attempts_left in reversed(range(_NAME_ATTEMPTS)):
            name = given.get("name") or ""
            if base and not name:
                name = base[:_LONGEST_BASE] + self.store.suffix()
            new = self._new(resource, obj, name, namespace)
            metadata = new["metadata"]
            admitted = admission.admit(self.store, resource, new)
            taken = self.store.get(resource, metadata.get("namespace", ""), name)
            if taken is None:
                break
            if given.get("name") or not attempts_left:
                raise errors.already_exists(resource, name)
        return admitted if dry_run else self.store.put(resource, admitted)

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """Return the object with this namespace and name. Raises ApiError (404)."""
        return self._current(resource, namespace, name)

    def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Objects:
        """Return objects ordered by namespace and name; "" for all namespaces.

        Raises ApiError (400).
        """
        wanted = selection(resource, namespace, labels, fields)
        found = self.store.list(resource, namespace)
        return [obj for obj in found if wanted.matches(obj)] if wanted.selective else found

    def update(
        self,
        resource: Resource,
        obj: Object,
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Replace a stored object, or one of its subresources such as status.

        Raises ApiError: 400, 404, 409 (stale resourceVersion, another uid), 422.
        """
        given = decoding.check_types(resource, obj).get("metadata") or {}
        namespace, name = given.get("namespace") or "", given.get("name") or ""
        current = self._current(resource, namespace, name)
        errors.check_stored(resource, current["metadata"], given, "uid")
        updating.check_version(resource, current, given)
        return self._change(resource, current, obj, subresource, dry_run=dry_run)

    def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        content_type: str,
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Apply a patch of one of `patching.PATCH_TYPES` to an object or a subresource.

        Raises ApiError: 400, 404, 409, 415, 422.
        """
        if subresource == "scale":
            scale = self.get_scale(resource, namespace, name)
            after = patching.patched(decoding.SCALE, scale, patch, content_type)
            return self.update_scale(resource, namespace, name, after, dry_run=dry_run)
        current = self._current(resource, namespace, name)
        before = to_requested_form(resource, current)
        after = without_null_fields(patching.patched(resource, before, patch, content_type))
        given = decoding.check_types(resource, after).get("metadata") or {}
        metadata = before["metadata"]
        if given.get("resourceVersion") not in ("", None, metadata["resourceVersion"]):
            raise errors.conflict(resource, name, errors.STALE)
        if (given.get("name"), given.get("namespace", "")) != (name, metadata.get("namespace", "")):
            raise errors.bad_request("the name or namespace of the object does not match the URL")
        updating.check_immutable(resource, current, given)
        return self._change(resource, current, after, subresource, dry_run=dry_run)

    def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        grace_seconds: int | None = None,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "",
        dry_run: bool = False,
    ) -> Deletion:
        """Delete an object, or set the deletionTimestamp if finalizers or a grace period delay the
        deletion.

        Raises ApiError: 403, 404, 409, 422.
        """
        current = self._current(resource, namespace, name)
        admission.check_deletable(resource, name)
        check_preconditions(resource, current, uid, resource_version)
        plan = plan_deletion(resource, current, grace_seconds, propagation, self.clock.wall())
        last = current if plan.update is None else plan.update
        if not dry_run:
            with self.store.held():
                if plan.update is not None and plan.update != current:
                    last = self.store.put(resource, plan.update)
                if plan.remove:
                    last = self.store.remove(resource, namespace, name)
        return Deletion(last, gone=plan.remove)

    def bind(self, namespace: str, name: str, binding: Object, *, dry_run: bool = False) -> Object:
        """Bind a pod to a node.

        Raises ApiError: 400, 403 (terminating namespace), 404, 409, 422.
        """
        given = decoding.check_types(decoding.BINDING, binding).get("metadata") or {}
        if given.get("name") not in (None, "", name):
            raise errors.bad_request("name in URL does not match name in Binding object")
        admission.check_namespace(self.store, PODS, namespace, name)
        pod = bound(self._current(PODS, namespace, name), binding, self.store.now())
        if not dry_run:
            self.store.put(PODS, pod)
        return errors.success(code=_CREATED)

    def evict(
        self, namespace: str, name: str, eviction: Object, *, dry_run: bool = False
    ) -> Object:
        """Evict a pod, subject to its PodDisruptionBudget.

        Raises ApiError: 400, 403, 404, 409, 429 (budget), 500 (two budgets).
        """
        decoding.check_types(decoding.EVICTION, eviction)
        admission.check_namespace(self.store, PODS, namespace, name)
        options = decoding.delete_options(eviction.get("deleteOptions"))
        pod = self._current(PODS, namespace, name)
        if (eviction.get("metadata") or {}).get("name") not in (None, "", name):
            raise errors.bad_request("name in URL does not match name in Eviction object")
        uid, version = decoding.preconditions(options)
        check_preconditions(PODS, pod, uid, version)
        budgets = self.store.list(POD_DISRUPTION_BUDGETS, namespace)
        now = self.store.now()
        charged = charge_budget(pod, budgets, now)
        dry_run = dry_run or bool(options.dry_run)
        # The last step that can be refused, before the first commit.
        self.delete(
            PODS, namespace, name, propagation=options.propagation_policy or "", dry_run=True
        )
        if not dry_run:
            with self.store.held():
                if charged is not None:
                    self.store.put(POD_DISRUPTION_BUDGETS, charged)
                if "deletionTimestamp" not in pod["metadata"]:
                    self.store.put(PODS, with_disruption_target(pod, now))
                self.delete(
                    PODS,
                    namespace,
                    name,
                    grace_seconds=options.grace_period_seconds,
                    propagation=options.propagation_policy or "",
                )
        return errors.success(code=_CREATED)

    def get_scale(self, resource: Resource, namespace: str, name: str) -> Object:
        """Return the Scale of a Deployment, ReplicaSet or StatefulSet. Raises ApiError (404)."""
        return subresources.scale_of(self._current(resource, namespace, name))

    def update_scale(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        scale: Object,
        *,
        dry_run: bool = False,
    ) -> Object:
        """Set the replicas of a workload by its Scale. Raises ApiError: 400, 404, 409, 422."""
        current = self._current(resource, namespace, name)
        given = decoding.check_types(decoding.SCALE, scale).get("metadata") or {}
        errors.check_stored(resource, current["metadata"], given, "uid")
        updating.check_version(resource, current, given)
        scaled = subresources.with_replicas(current, scale)
        return subresources.scale_of(self._change(resource, current, scaled, dry_run=dry_run))

    def exists(self, resource: Resource, namespace: str, name: str) -> bool:
        return self.store.get(resource, namespace, name) is not None

    def _current(self, resource: Resource, namespace: str, name: str) -> Object:
        obj = self.store.get(resource, namespace, name)
        if obj is None:
            raise errors.not_found(resource, name)
        return obj

    def _new(self, resource: Resource, obj: Object, name: str, namespace: str) -> Object:
        """Return a new object in stored form, with name, namespace and uid, before admission."""
        obj = to_stored_form(resource, obj)
        given = obj.get("metadata") or {}
        if namespace and given.get("namespace") not in (None, "", namespace):
            raise errors.bad_request(
                "the namespace of the provided object does not match "
                "the namespace sent on the request"
            )
        # The namespace in an object of a cluster-wide kind is cleared.
        namespace = (namespace or given.get("namespace") or "default") * resource.namespaced
        metadata: Object = {"name": name}
        if given.get("generateName"):
            metadata["generateName"] = given["generateName"]
        if namespace:
            metadata["namespace"] = namespace
        metadata |= {"uid": self.store.new_uid(), "resourceVersion": ""}
        if resource.kind in updating.WITH_GENERATION:
            metadata["generation"] = 1
        metadata["creationTimestamp"] = self.store.now()
        for field in ("labels", "annotations", "ownerReferences", "finalizers"):
            if given.get(field):
                metadata[field] = given[field]
        new = {
            "kind": obj.get("kind") or resource.kind,
            "apiVersion": obj.get("apiVersion") or resource.api_version,
            "metadata": metadata,
            **{k: v for k, v in obj.items() if k not in ("kind", "apiVersion", "metadata")},
        }
        if resource.namespaced:
            asked = given.get("name") or given.get("generateName") or ""
            admission.check_namespace(self.store, resource, namespace, asked)
        return new

    def _change(
        self,
        resource: Resource,
        current: Object,
        given: Object,
        subresource: str = "",
        *,
        dry_run: bool,
    ) -> Object:
        """Validate and store a changed object, which may complete its deletion."""
        after = updating.updated(
            resource.stored, current, to_stored_form(resource, given), subresource
        )
        if after is not current:
            if resource.kind == "Service":
                others = [s for s in self.store.list(SERVICES) if s is not current]
                after = admission.with_addresses(after, others, current)
            admission.check_among_others(self.store, resource, after)
            validate_change(resource, after, current, subresource)
            if not dry_run and is_deletion_complete(resource, after):
                self.store.remove(resource, *key_of(current))
            elif not dry_run:
                after = self.store.put(resource, after)
        return after
