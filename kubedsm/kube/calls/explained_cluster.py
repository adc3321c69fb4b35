"""API client for commands without retries: errors name cause and remedy.

Explained causes: a missing right, with the grantor, and a server other than an API server.
"""

import re
from http import HTTPStatus

import attrs

from kubedsm.kube.calls.permissions import FEATURES, Right
from kubedsm.kube.client.api_errors import api_error
from kubedsm.kube.client.port import (
    ApiStatusError,
    Cluster,
    ClusterFront,
    Forbidden,
    NotFound,
    OutcomeUnknown,
    Request,
    Response,
)

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
#: statuses whose body may be plain text: overloaded servers and authenticating proxies
_MAY_BE_ANYTHING = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.UNAUTHORIZED)
_SERVER_ERRORS = 500
_OF_AUTHORIZER = re.compile(r'\bUser ".*" cannot ')


class MissingRightError(Forbidden):
    """Error 403 for a missing RBAC right; the message names the right and the remedy."""

    def __init__(self, error: ApiStatusError, line: str) -> None:
        super().__init__(error.status, error.reason, error.message, error.causes)
        self._line = line

    def __str__(self) -> str:
        return self._line


def missing_right(request: Request, error: ApiStatusError) -> MissingRightError:
    """Return the error for a refused API request, which names the missing RBAC right."""
    right, where = right_for(request)
    ours = {attrs.evolve(each, own=False) for feature in FEATURES for each in feature.rights}
    mend = (
        "`kubedsm rbac` lists what each right is for, and with -o yaml prints roles that grant it"
        if right in ours
        else "a cluster administrator can grant it"
    )
    line = f"no right to {right} {where}: {error.message}; {mend}"
    return MissingRightError(error, line)


def right_for(request: Request) -> tuple[Right, str]:
    """Return the RBAC right that an API request needs, and its scope: cluster or namespace."""
    group, parts = "", request.path.strip("/").split("/")
    match parts:
        case ["apis", group, _, *parts]:
            pass
        case ["api", _, *parts]:
            pass
        case _:  # such as /version
            parts = [request.path]
    where = "in the whole cluster"
    match parts:
        case ["namespaces", namespace, inner, *rest]:
            where, parts = f"in namespace {namespace}", [inner, *rest]
    resource, name, subresource = (*parts, "", "", "")[:3]
    read = "get" if name or resource == request.path else "list"
    verb = "watch" if "watch" in request.query else _VERBS.get(request.method, read)
    return Right(verb, group, f"{resource}/{subresource}" if subresource else resource), where


class ExplainedCluster(ClusterFront):
    """API client wrapper that explains refused requests: missing RBAC rights, and wrong servers.

    `server` is the URL.
    """

    def __init__(self, cluster: Cluster, server: str) -> None:
        super().__init__(cluster)
        self.server = server

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Send an API request, and explain failures; see `Cluster.request`.

        Additionally raises MissingRightError, NotFound for listing an unknown resource, and
        OutcomeUnknown for responses from other servers than API servers.
        """
        answer = await self.cluster.request(request, timeout=timeout)
        if not answer.body.lstrip().startswith(b"{") and not (
            answer.status >= _SERVER_ERRORS or answer.status in _MAY_BE_ANYTHING
        ):
            error = api_error(answer)
            raise OutcomeUnknown(
                f"{self.server} does not respond like an API server ({error}): check the address,"
                " and login pages or proxies in between"
            )
        if answer.status == HTTPStatus.FORBIDDEN:
            error = api_error(answer)
            # Quotas and admission plugins refuse, too, in words of their own.
            if _OF_AUTHORIZER.search(error.message):
                raise missing_right(request, error)
        if answer.status == HTTPStatus.NOT_FOUND and request.method == "GET":
            right, _ = right_for(request)
            if right.verb == "list" or right.resource == request.path:
                raise NotFound(
                    answer.status,
                    "NotFound",
                    f"{self.server} serves no {right.resource.strip('/')} at {request.path}:"
                    " is it a Kubernetes API server?",
                )
        return answer
