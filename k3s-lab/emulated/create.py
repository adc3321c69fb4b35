"""create.py SERVER: creates the objects on stdin, YAML documents. As kubectl would; it may be missing."""

import json
import sys
import urllib.request

import yaml

from kubedsm.emulator.api.resources import SERVED

RESOURCES = {(resource.api_version, resource.kind): resource for resource in SERVED}
PATIENCE = 30


def main(server: str) -> None:
    for given in yaml.safe_load_all(sys.stdin):
        version = given["apiVersion"]
        resource = RESOURCES[version, given["kind"]]
        namespace = given["metadata"].get("namespace")
        where = f"namespaces/{namespace}/" if namespace else ""
        request = urllib.request.Request(
            f"{server}/{'apis' if '/' in version else 'api'}/{version}/{where}{resource.plural}",
            data=json.dumps(given).encode(),
            headers={"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=PATIENCE).close()


if __name__ == "__main__":
    main(*sys.argv[1:])
