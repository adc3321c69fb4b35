"""In-cluster configuration of a pod, for a process outside of a cluster."""

import os
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import attrs

from kubedsm.kube.client.environment import SERVICE_ACCOUNT_VARIABLE
from kubedsm_lab.emulator.http.server import HttpFront, server_tls
from support.rights import Logged, token_of


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
