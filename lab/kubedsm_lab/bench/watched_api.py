"""API server of any cluster behind the emulated one's face: reads come from watches, writes go to
the server.

The oracles and the incidents of the emulated cluster work on it unchanged. Callers are synchronous,
so a second thread carries the requests.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import orjson

from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.kube.client.port import Cluster, ClusterError, Request, Response, path_of
from kubedsm.kube.watching.reflector import Reflector
from kubedsm.kube.wire.decoding import Applied, Identity, Line, Reader, Watched
from kubedsm.kube.wire.errors import Source
from kubedsm.kube.wire.schema import AnyObject
from kubedsm.model.events import is_older
from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.deletion import Deletion
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.object_state import key_of
from kubedsm_lab.emulator.api.resources import PODS, Object, Resource
from kubedsm_lab.emulator.api.store import Store

#: seconds until the response of a request
TIMEOUT = 10.0
_BAD_REQUEST, _UNAVAILABLE = 400, 503
Send = Callable[[Request], Response]


@contextmanager
def connect_blocking(kubeconfig: Path, context: str | None) -> Iterator[Send]:
    """Yield a function that sends a request from another thread, and waits for the response.

    Raises CredentialsError; the function raises ClusterError.
    """
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run_there(coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    try:
        cluster = run_there(KubernetesCluster.connect(kubeconfig, context))
        run_there(cluster.__aenter__())
        try:
            yield lambda request: run_there(cluster.request(request, timeout=TIMEOUT))
        finally:
            run_there(cluster.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class WatchedStore(Store):
    """Store of the states that a server has reported, with the server's resourceVersions."""

    def _stamp_object(self, obj: Object) -> Object:
        return obj

    def observe(self, resource: Resource, obj: Object) -> None:
        """Store a reported state, unless a newer one is known."""
        obj = {"kind": resource.kind, "apiVersion": resource.api_version, **obj}
        known = self.get(resource, *key_of(obj))
        if known is None or is_older(_version(known), _version(obj)):
            self.put(resource, obj)

    def observe_deletion(self, resource: Resource, gone: Identity) -> None:
        known = self.get(resource, gone.namespace, gone.name)
        if known is not None and known["metadata"]["uid"] == gone.uid:
            self.remove(resource, gone.namespace, gone.name)


class WatchedApiServer(ApiServer):
    """API server over HTTP: writes are sent with `send`, and reads see `store`, which
    `watch` keeps up to date.

    Methods raise ApiError as those of the emulated API server: 503 if there is no response.
    """

    store: WatchedStore

    def __init__(self, send: Send, clock: Clock, rng: random.Random) -> None:
        self._send = send
        self.clock = clock
        self.store = WatchedStore(clock, rng, history=1)

    def create(
        self, resource: Resource, obj: Object, *, namespace: str = "", dry_run: bool = False
    ) -> Object:
        """Create an object; see `ApiServer.create`."""
        path = path_to(resource, namespace or key_of(obj)[0])
        return self._write(resource, "POST", path, obj, dry_run=dry_run)

    def update(
        self, resource: Resource, obj: Object, *, subresource: str = "", dry_run: bool = False
    ) -> Object:
        """Replace an object or a subresource; see `ApiServer.update`."""
        path = path_to(resource, *key_of(obj), subresource)
        return self._write(resource, "PUT", path, obj, dry_run=dry_run)

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
        """Patch an object or a subresource; see `ApiServer.patch`."""
        path = path_to(resource, namespace, name, subresource)
        return self._write(resource, "PATCH", path, patch, content_type, dry_run=dry_run)

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
        """Delete an object; see `ApiServer.delete`. The watch shows whether the object is gone."""
        given = {"uid": uid, "resourceVersion": resource_version}
        options = {
            "gracePeriodSeconds": grace_seconds,
            "preconditions": {key: value for key, value in given.items() if value},
            "propagationPolicy": propagation or "Background",
        }
        path = path_to(resource, namespace, name)
        return Deletion(self.call("DELETE", path, options, dry_run=dry_run), gone=False)

    def bind(self, namespace: str, name: str, binding: Object, *, dry_run: bool = False) -> Object:
        """Bind a pod to a node; see `ApiServer.bind`."""
        path = path_to(PODS, namespace, name, "binding")
        return self.call("POST", path, {"metadata": {"name": name}, **binding}, dry_run=dry_run)

    def evict(
        self, namespace: str, name: str, eviction: Object, *, dry_run: bool = False
    ) -> Object:
        """Evict a pod, subject to its PodDisruptionBudget; see `ApiServer.evict`."""
        kind = {"apiVersion": "policy/v1", "kind": "Eviction"}
        path = path_to(PODS, namespace, name, "eviction")
        return self.call("POST", path, {**kind, **eviction}, dry_run=dry_run)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        *,
        dry_run: bool = False,
    ) -> Object:
        """Send a request, and return the decoded response. Raises ApiError."""
        query = {"dryRun": "All"} if dry_run else {}
        try:
            response = self._send(Request(method, path, query, body, content_type))
            answer: Object = orjson.loads(response.body)
        except (ClusterError, orjson.JSONDecodeError) as error:
            raise ApiError(_UNAVAILABLE, "ServiceUnavailable", str(error)) from error
        if response.status >= _BAD_REQUEST:
            reason, message = answer.get("reason", ""), answer.get("message", "")
            raise ApiError(response.status, reason, f"{method} {path}: {message}")
        return answer

    def _write(
        self,
        resource: Resource,
        method: str,
        path: str,
        body: Any,
        content_type: str = "application/json",
        *,
        dry_run: bool,
    ) -> Object:
        """Send a write, and make it visible to readers before the watch reports it."""
        written = self.call(method, path, body, content_type, dry_run=dry_run)
        if not dry_run:
            self.store.observe(resource, written)
        return written

    async def watch(
        self,
        tasks: asyncio.TaskGroup,
        cluster: Cluster,
        rng: random.Random,
        resource: Resource,
        namespace: str = "",
        labels: str = "",
    ) -> asyncio.Task[Any]:
        """List and watch a resource into the store until the returned task is cancelled.

        Raises ApiError if the list fails for 10 s, such as for want of a right.
        """
        watched = Watched[Object, Callable[[], None]](
            _RawReader(resource.kind),
            path_to(resource, namespace),
            lambda obj: partial(self.store.observe, resource, obj),
            lambda gone: partial(self.store.observe_deletion, resource, gone),
            namespaced=resource.namespaced,
            selectors=(("labelSelector", labels),) if labels else (),
        )
        synced, problems = asyncio.Event(), [f"no list of {resource.plural}"]
        reflector = Reflector(
            cluster, watched, self.clock, rng, lambda act: act(), synced.set, problems.append
        )
        watching = tasks.create_task(reflector.run())
        try:
            async with asyncio.timeout(TIMEOUT):
                await synced.wait()
        except TimeoutError:
            raise ApiError(_UNAVAILABLE, "ServiceUnavailable", problems[-1]) from None
        return watching


class _RawReader(Reader[AnyObject, Object]):
    """Decoder of API objects to their JSON form."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind, AnyObject, lambda _: {})

    def item(self, source: Source) -> Applied[Object]:
        return Applied(super().item(source).identity, orjson.loads(bytes(source)))

    def line(self, line: bytes) -> Line[Object]:
        event = super().line(line)
        if isinstance(event, Applied):
            return Applied(event.identity, orjson.loads(line)["object"])
        return event


def path_to(resource: Resource, namespace: str, name: str = "", subresource: str = "") -> str:
    """Return the API path of a resource, an object or a subresource."""
    root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.api_version}"
    scope = namespace if namespace and resource.namespaced else None
    return path_of(root, scope, resource.plural, name or None, subresource)


def _version(obj: Object) -> str:
    version: str = obj["metadata"]["resourceVersion"]
    return version
