"""Audit log of the emulated API server, in the format of audit.k8s.io/v1 at level Metadata.

Source: kubernetes.io, "Auditing". Annotations give the sizes of both bodies, which a Metadata log
of kube-apiserver lacks.
"""

import time
from typing import BinaryIO

import attrs
import orjson

from kubedsm.process.clock import rfc3339
from kubedsm_lab.emulator.http.paths import attributes_of
from kubedsm_lab.emulator.http.routes import ApiRequest

#: annotations: bytes of the request's and of the response's body
REQUEST_BYTES, RESPONSE_BYTES = "kubedsm.io/request-bytes", "kubedsm.io/response-bytes"


@attrs.frozen
class AuditLog:
    """Writer of one line for each request, once its response is known."""

    file: BinaryIO

    def record(
        self,
        received: float,
        request: ApiRequest,
        user_agent: str,
        code: int,
        answered: int,
    ) -> None:
        """Write the line of a request; `received`: Unix time, `answered`: bytes of the response's
        body.
        """
        asked = attributes_of(request.method, request.path, request.query)
        reference = {
            "apiGroup": asked.group,
            "resource": asked.resource,
            "subresource": asked.subresource,
            "namespace": asked.namespace,
            "name": asked.name,
        }
        line = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "stage": "ResponseComplete",
            "requestURI": request.path,
            "verb": asked.verb,
            "userAgent": user_agent,
            "objectRef": {name: value for name, value in reference.items() if value},
            "responseStatus": {"code": code},
            "requestReceivedTimestamp": rfc3339(received),
            "stageTimestamp": rfc3339(time.time()),
            "annotations": {
                REQUEST_BYTES: str(len(request.body)),
                RESPONSE_BYTES: str(answered),
            },
        }
        self.file.write(orjson.dumps(line) + b"\n")
        self.file.flush()
