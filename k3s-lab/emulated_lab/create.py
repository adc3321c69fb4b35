"""Creation of Kubernetes objects from YAML on stdin: `python -m emulated_lab.create SERVER`.

Replaces kubectl, which may be missing.
"""

import sys

import requests
import yaml

from kubedsm_lab.emulator.api.resources import SERVED

RESOURCES = {(resource.api_version, resource.kind): resource for resource in SERVED}
PATIENCE = 30


def main(server: str) -> None:
    for given in yaml.safe_load_all(sys.stdin):
        version = given["apiVersion"]
        group = f"{server}/{'apis' if '/' in version else 'api'}/{version}"
        namespace = given["metadata"].get("namespace")
        path = f"{group}/namespaces/{namespace}" if namespace else group
        plural = RESOURCES[version, given["kind"]].plural
        requests.post(f"{path}/{plural}", json=given, timeout=PATIENCE).raise_for_status()


if __name__ == "__main__":
    main(*sys.argv[1:])
