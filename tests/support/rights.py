"""RBAC permissions of the shipped manifests, enforced by an emulated cluster and used by a pod."""

import os
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import attrs

from kubedsm.kube.client.environment import SERVICE_ACCOUNT_VARIABLE
from kubedsm_lab.emulator.access.access import AUDIENCE
from kubedsm_lab.emulator.api.resources import SERVED
from kubedsm_lab.emulator.http.routes import ApiResponse
from kubedsm_lab.emulator.http.server import HttpFront, server_tls
from support.manifests import BASE, documents

ADMIN_TOKEN = "the administrator's"  # noqa: S105 - nobody's
ACCOUNT = ("kubedsm", "kubedsm")
_BY_KIND = {resource.kind: resource for resource in SERVED}


@attrs.frozen
class Right:
    """Permission for one verb on one resource, by a Role or a ClusterRole."""

    kind: str
    group: str
    resource: str
    verb: str

    def __str__(self):
        where = "" if self.kind == "ClusterRole" else " in its namespace"
        return f"{self.verb} {self.resource}{'.' if self.group else ''}{self.group}{where}"


def shipped(*names):
    """Return the objects of manifest files in the base."""
    return [given for name in names for given in documents(BASE / name)]


def rights():
    return [
        Right(given["kind"], group, resource, verb)
        for given in shipped("rbac.yaml")
        for rule in given.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


def without(given, missing):
    """Return the role without some permissions."""
    if given["kind"] not in {right.kind for right in missing}:
        return given
    left = [
        {**rule, "apiGroups": [group], "resources": [resource], "verbs": verbs}
        for rule in given["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if (
            verbs := [
                v for v in rule["verbs"] if Right(given["kind"], group, resource, v) not in missing
            ]
        )
    ]
    return {**given, "rules": left}


def install(cluster, *missing):
    """Create the RBAC objects of the manifests but for some rights; return the account's token."""
    for given in shipped("namespace.yaml", "serviceaccount.yaml", "rbac.yaml"):
        namespace = given["metadata"].get("namespace", "")
        cluster.api.create(_BY_KIND[given["kind"]], without(given, missing), namespace=namespace)
    return token_of(cluster, *ACCOUNT)


def token_of(cluster, namespace, name):
    account = cluster.api.get(_BY_KIND["ServiceAccount"], namespace, name)
    tokens = cluster.access.tokens
    uid = account["metadata"]["uid"]
    return tokens.issue(namespace, name, uid, (AUDIENCE,), 3600.0)


@attrs.define
class Logged:
    """Routes wrapper that records requests and response codes."""

    routes: object
    #: of each: the request, and the status of its answer
    requests: list = attrs.field(factory=list)

    def handle(self, request):
        answer = self.routes.handle(request)
        status = answer.status if isinstance(answer, ApiResponse) else 200
        self.requests.append((request, status))
        return answer

    @property
    def forbidden(self):
        """Return method and path of the requests that were forbidden."""
        return [(asked.method, asked.path) for asked, status in self.requests if status == 403]


@attrs.frozen
class Secured:
    """HTTPS server of an emulated cluster with enforced access."""

    cluster: object
    url: str
    #: PEM
    ca: bytes
    log: Logged

    def environment_of(self, folder, namespace, name):
        """Write a ServiceAccount's mounted files; return the environment variables of a pod."""
        folder.mkdir()
        (folder / "token").write_text(token_of(self.cluster, namespace, name))
        (folder / "ca.crt").write_bytes(self.ca)
        (folder / "namespace").write_text(namespace)
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "KUBERNETES_SERVICE_HOST": urlsplit(self.url).hostname,
            "KUBERNETES_SERVICE_PORT": str(urlsplit(self.url).port),
            SERVICE_ACCOUNT_VARIABLE: str(folder),
        }


@asynccontextmanager
async def secured(cluster):
    """Serve a cluster over HTTPS, and log its requests."""
    tls, log = server_tls(["127.0.0.1"]), Logged(cluster.routes)
    async with HttpFront(log, tls=tls.context) as front:
        yield Secured(cluster, front.url, tls.ca, log)
