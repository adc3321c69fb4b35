"""List and watch requests: query parameters, and list pages consistent at one revision.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/
"""

import base64
import binascii
from bisect import bisect_right
from collections.abc import Mapping, Sequence

import msgspec

from kubedsm_lab.emulator.api.errors import (
    ApiError,
    bad_request,
    invalid,
    may_not,
)
from kubedsm_lab.emulator.api.object_state import key_of
from kubedsm_lab.emulator.api.resources import Object, Resource
from kubedsm_lab.emulator.api.selectors import Selection, selection
from kubedsm_lab.emulator.api.store import ExpiredError, Store
from kubedsm_lab.emulator.http.watching import Form, WatchRequest

_TOKEN_VERSION = "meta.k8s.io/v1"  # noqa: S105 - a format, not a secret
_PAGE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter."
)
_LARGEST = 2**64


class _Continue(msgspec.Struct):
    v: str
    rv: int
    start: str


def is_watch(query: Mapping[str, str]) -> bool:
    return flag(query, "watch")


def parse_selection(resource: Resource, namespace: str, query: Mapping[str, str]) -> Selection:
    """Parse the label and field selectors of a query. Raises ApiError (400)."""
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    return selection(resource, namespace, labels, fields)


def page_of(
    store: Store, resource: Resource, wanted: Selection, query: Mapping[str, str]
) -> tuple[Sequence[Object], Object]:
    """Return one page of a list response, with at most `limit` objects of one revision, and the
    metadata of the list: resourceVersion, continue, remainingItemCount.

    Raises ApiError: 400, 410 (expired), 504.
    """
    limit = number(query, "limit")
    token = query.get("continue", "")
    _check_version_match(query)
    if token:
        revision, start = _decode_token(token)
        objects = _as_of(store, resource, wanted.namespace, revision)
        objects = objects[bisect_right(objects, start, key=key_of) :]
    else:
        revision, objects = _first_objects(store, resource, wanted.namespace, query)
    if wanted.selective:
        objects = [obj for obj in objects if wanted.matches(obj)]
    page, rest = (objects[:limit], objects[limit:]) if limit else (objects, [])
    metadata: Object = {"resourceVersion": str(revision)}
    if rest:
        metadata["continue"] = _encode_token(revision, page[-1])
        if not wanted.selective:
            metadata["remainingItemCount"] = len(rest)
    return page, metadata


def watch_of(store: Store, wanted: Selection, form: Form, query: Mapping[str, str]) -> WatchRequest:
    """Parse a watch request; return it with its initial objects.

    Raises ApiError: 400, 422, 500 (malformed resourceVersion).
    """
    version = resource_version(query)
    streaming = flag(query, "sendInitialEvents")
    _check_match(query)
    initial: Sequence[Object] = ()
    if streaming or not version:
        initial = [o for o in store.list(form.resource, wanted.namespace) if wanted.matches(o)]
        version = 0
    bookmarks = flag(query, "allowWatchBookmarks")
    return WatchRequest(
        wanted,
        form,
        since=version,
        initial=initial,
        initial_bookmark=streaming and bookmarks,
        bookmarks=bookmarks,
        timeout=number(query, "timeoutSeconds"),
    )


def resource_version(query: Mapping[str, str]) -> int:
    """Parse the query parameter resourceVersion; 0 if absent.

    Raises ApiError (500, as kube-apiserver's watch cache responds).
    """
    text = query.get("resourceVersion", "")
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(_LARGEST)):
        why = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise ApiError(500, "", f'resourceVersion: Invalid value: "{text}": {why}')
    return int(text)


def number(query: Mapping[str, str], name: str) -> int:
    """Parse a nonnegative integer query parameter; 0 if absent. Raises ApiError (400)."""
    text = query.get(name, "")
    try:
        value = int(text or "0")
    except ValueError:
        value = -1
    if not 0 <= value < _LARGEST:
        raise bad_request(f'{name}: Invalid value: "{text}": must be a number, at least 0')
    return value


def flag(query: Mapping[str, str], name: str) -> bool:
    """Parse a boolean query parameter; False if absent."""
    return query.get(name, "").lower() in ("1", "true", "t")


def _check_match(query: Mapping[str, str]) -> None:
    match, streaming = query.get("resourceVersionMatch"), "sendInitialEvents" in query
    why = ""
    if match and not streaming:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    elif streaming and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    if why:
        raise invalid("ListOptions", "meta.k8s.io", "", [may_not("resourceVersionMatch", why)])


def _check_version_match(query: Mapping[str, str]) -> None:
    """Raise ApiError (400, 422) for parameters of a list that contradict one another."""
    version, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    if version not in ("", "0") and query.get("continue"):
        raise bad_request("specifying resource version is not allowed when using continue")
    why = ""
    if match and not version:
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
    elif match == "Exact" and version == "0":
        why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    if why:
        raise invalid("ListOptions", "meta.k8s.io", "", [may_not("resourceVersionMatch", why)])


def _first_objects(
    store: Store, resource: Resource, namespace: str, query: Mapping[str, str]
) -> tuple[int, list[Object]]:
    try:
        version = resource_version(query)
    except ApiError as error:
        raise bad_request(f"invalid resource version: {error.message}") from None
    if version > store.revision:
        message = f"Timeout: Too large resource version: {version}, current: {store.revision}"
        cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        raise ApiError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})
    if version and query.get("resourceVersionMatch") == "Exact":
        return version, _as_of(store, resource, namespace, version)
    return store.revision, store.list(resource, namespace)


def _as_of(store: Store, resource: Resource, namespace: str, revision: int) -> list[Object]:
    try:
        return store.list_at(resource, namespace, revision)
    except ExpiredError:
        raise ApiError(410, "Expired", _PAGE_TOO_OLD) from None


def _encode_token(revision: int, last: Object) -> str:
    token = _Continue(_TOKEN_VERSION, revision, "/".join(key_of(last)) + "\0")
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _decode_token(token: str) -> tuple[int, tuple[str, str]]:
    padded = token + "=" * (-len(token) % 4)
    try:
        opened = msgspec.json.decode(
            base64.b64decode(padded, altchars="-_", validate=True), type=_Continue
        )
    except (binascii.Error, msgspec.DecodeError, ValueError) as error:
        raise bad_request(f"continue key is not valid: {error}") from None
    namespace, _, name = opened.start.rstrip("\0").partition("/")
    if opened.v != _TOKEN_VERSION or not name:
        raise bad_request("continue key is not valid: unrecognized version or start")
    return opened.rv, (namespace, name)
