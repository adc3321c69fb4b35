"""Routes of the API server: from HTTP requests to its verbs and responses.

The socket server and the in-process connection share these routes.
"""

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import attrs
import orjson

from kubedsm_lab.emulator.access.access import Access
from kubedsm_lab.emulator.access.rbac import ANONYMOUS, User
from kubedsm_lab.emulator.api import decoding, errors
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.policies import check_update, list_enforced
from kubedsm_lab.emulator.api.resources import REVIEWS, Object, Resource
from kubedsm_lab.emulator.http import bodies, discovery, listing, reviews
from kubedsm_lab.emulator.http.paths import Target, attributes_of, check_emulated, target_of
from kubedsm_lab.emulator.http.pod_logs import LogStream, Output, read_log
from kubedsm_lab.emulator.http.watching import Form, WatchHub, WatchStream

__all__ = ["ApiRequest", "ApiResponse", "Routes", "Stream", "WatchStream"]

_OK, _CREATED, _ACCEPTED = 200, 201, 202
_VERBS_OF_ALL = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_VERBS_OF_ONE = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
#: kinds created by PUT
_CREATED_BY_UPDATE = frozenset({"Endpoints", "Event", "Lease", "Service"})
#: kinds whose DELETE is answered with the object, others with a Status
_RETURNED_WHEN_DELETED = frozenset({
    "Namespace", "Pod", "ResourceQuota", "Service", "ServiceAccount",
})  # fmt: skip


@attrs.frozen
class ApiRequest:
    method: str
    #: decoded, without the query
    path: str
    query: Mapping[str, str] = attrs.field(factory=dict)
    content_type: str = ""
    accept: str = ""
    body: bytes = b""
    #: bearer token
    token: str | None = None
    #: user and groups to impersonate
    as_user: str = ""
    as_groups: tuple[str, ...] = ()
    #: authenticated user, derived from the fields above
    user: User = ANONYMOUS

    @property
    def is_dry_run(self) -> bool:
        """Return whether nothing is to be stored (dryRun=All). Raises ApiError (422)."""
        return bodies.is_dry_run(self.query)


@attrs.frozen
class ApiResponse:
    status: int
    body: bytes
    content_type: str = "application/json"
    #: warning displayed by clients
    warning: str = ""


#: streaming responses
Stream = WatchStream | LogStream
Answer = ApiResponse | Stream
Handler = Callable[[Target, ApiRequest], Answer]


class Routes:
    """Request handler of an ApiServer; unrestricted unless `access` is enforced.

    `output` provides the logs of pod processes, `pacing` delays watch events.
    """

    def __init__(
        self,
        api: ApiServer,
        access: Access | None = None,
        output: Output = lambda *_: None,
        pacing: random.Random | None = None,
    ) -> None:
        self._api = api
        self._access = access or Access.open(api)
        self._hub = WatchHub(api.store, api.clock, pacing)
        self._output = output
        #: handlers by method
        self._of_collection: Mapping[str, Handler] = {
            "GET": self._list,
            "POST": self._create,
            "DELETE": self._delete_collection,
        }
        part: dict[str, Handler] = {"GET": self._get, "PUT": self._update, "PATCH": self._patch}
        self._of_object: Mapping[str, Handler] = {**part, "DELETE": self._delete}
        self._of_subresource: Mapping[str, Mapping[str, Handler]] = {
            "status": part,
            "resize": part,
            "scale": {"GET": self._get_scale, "PUT": self._update_scale, "PATCH": self._patch},
            "binding": {"POST": partial(self._act_on_pod, api.bind)},
            "eviction": {"POST": partial(self._act_on_pod, api.evict)},
            "log": {"GET": self._log},
            "finalize": {"PUT": self._update},
            "token": {"POST": self._create_token},
        }

    @property
    def open_watches(self) -> int:
        """Return the number of open watches."""
        return self._hub.open_streams

    def handle(self, request: ApiRequest) -> Answer:
        """Handle an API request and return the response without delay; a watch's response streams
        later events.
        """
        try:
            return self._answer(request)
        except errors.ApiError as error:
            return _json(error.status, error.body())

    def _answer(self, request: ApiRequest) -> Answer:
        if self._access.is_enforced:
            user = self._access.user_of(request.token)
            if request.as_user:
                user = self._access.impersonate(user, request.as_user, request.as_groups)
            request = attrs.evolve(request, user=user)
        self._authorize(request)
        target = target_of(request.path)
        if target is not None:
            return self._find_handler(target, request.method)(target, request)
        check_emulated(request.path)
        return _serve_document(request)

    def _authorize(self, request: ApiRequest, verb: str = "") -> None:
        """Authorize a request; `verb` overrides the one of its method. Raises ApiError (403)."""
        if not self._access.is_enforced:
            return
        attributes = attributes_of(request.method, request.path, request.query)
        self._access.check(request.user, attrs.evolve(attributes, verb=verb or attributes.verb))

    def _find_handler(self, target: Target, method: str) -> Handler:
        if target.subresource:
            handlers = self._of_subresource[target.subresource]
        else:
            handlers = self._of_object if target.name else self._of_collection
        handler = handlers.get(method)
        everywhere = target.resource.namespaced and not target.namespace
        if handler is None or (everywhere and method != "GET"):
            raise errors.method_not_allowed()
        verbs = _VERBS_OF_ONE if target.name else _VERBS_OF_ALL
        if not target.subresource and verbs[method] not in target.resource.verbs:
            raise errors.method_not_allowed()
        return handler

    def _list(self, target: Target, request: ApiRequest) -> Answer:
        resource, query = target.resource, request.query
        form = _form_of(target, request)
        wanted = listing.parse_selection(resource, target.namespace, query)
        store = self._api.store
        if listing.is_watch(query):
            return self._hub.open(listing.watch_of(store, wanted, form, query))
        page = listing.page_of(store, resource, wanted, query)
        return _json(_OK, form.several(*page, self._api.clock.wall()))

    def _get(self, target: Target, request: ApiRequest) -> Answer:
        return self._respond(_OK, target, request, self._api.get(*_identity(target)))

    def _create(self, target: Target, request: ApiRequest) -> Answer:
        obj = self._object(target, request)
        if target.resource in REVIEWS:
            review = reviews.reviewed(target.resource, obj, request.user, self._access)
            warning = reviews.warning_with(target.resource, self._access)
            return attrs.evolve(_json(_CREATED, review), warning=warning)
        obj, warning = self._decode_strictly(target, request, obj)
        return attrs.evolve(self._store_new(target, request, obj), warning=warning)

    def _decode_strictly(
        self, target: Target, request: ApiRequest, document: Any
    ) -> tuple[Any, str]:
        resource = decoding.SCALE if target.subresource == "scale" else target.resource
        mode, is_patch = request.query.get("fieldValidation", ""), request.method == "PATCH"
        return bodies.decode_strictly(resource, document, request.body, mode, is_patch=is_patch)

    def _store_new(self, target: Target, request: ApiRequest, obj: Object) -> ApiResponse:
        created = self._api.create(
            target.resource, obj, namespace=target.namespace, dry_run=request.is_dry_run
        )
        return self._respond(_CREATED, target, request, created)

    def _update(self, target: Target, request: ApiRequest) -> Answer:
        resource = target.resource
        given, warning = self._decode_strictly(target, request, self._object(target, request))
        obj = _place_in_namespace(decoding.check_types(resource, given), target)
        if (
            resource.kind in _CREATED_BY_UPDATE
            and not target.subresource
            and not obj["metadata"].get("resourceVersion")
            and not self._api.exists(*_identity(target))
        ):
            self._authorize(request, "create")
            return attrs.evolve(self._store_new(target, request, obj), warning=warning)
        write = partial(self._api.update, resource, obj, subresource=target.subresource)
        after = self._admit_write(target, request, write)
        return attrs.evolve(self._respond(_OK, target, request, after), warning=warning)

    def _patch(self, target: Target, request: ApiRequest) -> Answer:
        patch, content_type = bodies.patch_in(request.body, request.content_type)
        patch, warning = self._decode_strictly(target, request, patch)
        write = partial(
            self._api.patch,
            *_identity(target),
            patch,
            content_type,
            subresource=target.subresource,
        )
        after = self._admit_write(target, request, write)
        return attrs.evolve(self._respond(_OK, target, request, after), warning=warning)

    def _admit_write(
        self, target: Target, request: ApiRequest, write: Callable[..., Object]
    ) -> Object:
        """Perform a write after admission policies have accepted the result of a dry run."""
        resource, dry_run = target.resource, request.is_dry_run
        policies = list(list_enforced(self._api.store, resource, target.subresource))
        if policies and self._api.exists(*_identity(target)):
            before = self._api.get(*_identity(target))
            after = write(dry_run=True)
            check_update(policies, resource, before, after, request.user.info, target.subresource)
        return write(dry_run=dry_run)

    def _delete(self, target: Target, request: ApiRequest) -> Answer:
        resource = target.resource
        options = _delete_options(request)
        deletion = self._api.delete(*_identity(target), **_deletion_arguments(options))
        if deletion.gone and resource.kind not in _RETURNED_WHEN_DELETED:
            uid = deletion.object["metadata"]["uid"]
            return _json(
                _OK, errors.success(details={**errors.identity(resource, target.name), "uid": uid})
            )
        foreground = options.propagation_policy == "Foreground"
        waits = not deletion.gone and (foreground or options.orphan_dependents is False)
        return self._respond(_ACCEPTED if waits else _OK, target, request, deletion.object)

    def _delete_collection(self, target: Target, request: ApiRequest) -> Answer:
        resource, namespace = target.resource, target.namespace
        options = _delete_options(request)
        wanted = listing.parse_selection(resource, namespace, request.query)
        objects, metadata = listing.page_of(self._api.store, resource, wanted, request.query)
        for obj in objects:
            name = obj["metadata"]["name"]
            # a controller may have been faster
            if self._api.exists(resource, namespace, name):
                self._api.delete(resource, namespace, name, **_deletion_arguments(options))
        return _json(_OK, Form(resource).several(objects, metadata, 0))

    def _get_scale(self, target: Target, _request: ApiRequest) -> Answer:
        return _json(_OK, self._api.get_scale(*_identity(target)))

    def _update_scale(self, target: Target, request: ApiRequest) -> Answer:
        given = decoding.check_types(decoding.SCALE, self._object(target, request))
        scale = _place_in_namespace(given, target)
        return _json(
            _OK, self._api.update_scale(*_identity(target), scale, dry_run=request.is_dry_run)
        )

    def _act_on_pod(
        self, action: Callable[..., Object], target: Target, request: ApiRequest
    ) -> Answer:
        given, dry_run = self._object(target, request), request.is_dry_run
        return _json(_CREATED, action(target.namespace, target.name, given, dry_run=dry_run))

    def _log(self, target: Target, request: ApiRequest) -> Answer:
        log = read_log(self._api, self._output, target.namespace, target.name, request.query)
        return ApiResponse(_OK, log, "text/plain") if isinstance(log, bytes) else log

    def _create_token(self, target: Target, request: ApiRequest) -> Answer:
        account = self._api.get(*_identity(target))
        given = self._object(target, request)
        return _json(_CREATED, reviews.token_for(account, given, self._access))

    def _object(self, target: Target, request: ApiRequest) -> Any:
        return bodies.object_in(target.resource, request.body, request.content_type)

    def _respond(
        self, status: int, target: Target, request: ApiRequest, obj: Object
    ) -> ApiResponse:
        if obj["kind"] == target.resource.kind:
            obj = _form_of(target, request).single(obj, self._api.clock.wall())
        return _json(status, obj)


def _form_of(target: Target, request: ApiRequest) -> Form:
    """Return the form of objects that the request accepts. Raises ApiError (400, 406)."""
    table = bodies.parse_table_request(request.accept, request.query)
    return Form(target.resource, table, partial=bodies.wants_metadata(request.accept))


def _serve_document(request: ApiRequest) -> ApiResponse:
    """Return the response of a non-resource path: discovery, OpenAPI or health."""
    if request.path == discovery.V2 and "protobuf" in request.accept:
        return ApiResponse(_OK, b"", discovery.V2_PROTOBUF)
    document = discovery.discovery_document(request.path)
    document = document or discovery.openapi_document(request.path)
    if document is None:
        return ApiResponse(404, b"404 page not found\n", "text/plain; charset=utf-8")
    if request.method != "GET":
        raise errors.method_not_allowed()
    if isinstance(document, str):
        return ApiResponse(_OK, document.encode(), "text/plain; charset=utf-8")
    return _json(_OK, document)


def _json(status: int, body: Object) -> ApiResponse:
    return ApiResponse(status, orjson.dumps(body))


def _identity(target: Target) -> tuple[Resource, str, str]:
    return target.resource, target.namespace, target.name


def _place_in_namespace(obj: Object, target: Target) -> Object:
    """Return the object of a PUT request with the namespace of the request's path.

    Raises ApiError (400) if name or namespace contradict the path.
    """
    metadata = obj.get("metadata") or {}
    name, namespace = metadata.get("name") or "", metadata.get("namespace") or target.namespace
    for what, where, given, named in (
        ("name", "name on the URL", name, target.name),
        ("namespace", "namespace on the request", namespace, target.namespace),
    ):
        if given != named:
            raise errors.bad_request(
                f"the {what} of the object ({given}) does not match the {where} ({named})"
            )
    placed = {**metadata, "namespace": target.namespace} if target.namespace else metadata
    return {**obj, "metadata": placed}


def _delete_options(request: ApiRequest) -> decoding.DeleteOptions:
    """Return the DeleteOptions of the body; without a body, those of the query."""
    given = bodies.options_in(request.body, request.content_type)
    query = request.query
    if given is None:
        given = {key: query[key] for key in ("propagationPolicy",) if key in query}
        if "gracePeriodSeconds" in query:
            given["gracePeriodSeconds"] = listing.number(query, "gracePeriodSeconds")
    options = decoding.delete_options(given)
    if request.is_dry_run:
        options.dry_run = ["All"]
    if options.orphan_dependents is not None and options.propagation_policy is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        error = errors.invalid_value("propagationPolicy", options.propagation_policy, why)
        raise errors.invalid("DeleteOptions", "meta.k8s.io", "", [error])
    if options.orphan_dependents and options.propagation_policy is None:
        options.propagation_policy = "Orphan"
    return options


def _deletion_arguments(options: decoding.DeleteOptions) -> dict[str, Any]:
    uid, version = decoding.preconditions(options)
    return {
        "grace_seconds": options.grace_period_seconds,
        "uid": uid,
        "resource_version": version,
        "propagation": options.propagation_policy or "",
        "dry_run": bool(options.dry_run),
    }
