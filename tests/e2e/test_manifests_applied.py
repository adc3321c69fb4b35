"""The manifests as kubectl applies them to an emulated cluster."""

import pytest
import yaml

from support.kubectl import Kubectl, needs_kubectl
from support.manifests import MANIFESTS, built
from support.processes import Server

pytestmark = [pytest.mark.http, needs_kubectl]

#: kinds that the emulated cluster does not have
FOREIGN = ("NetworkPolicy", "PrometheusRule", "ServiceMonitor")
FOLDERS = [MANIFESTS, *sorted((MANIFESTS / "overlays").iterdir())]


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory):
    with Server() as server:
        yield Kubectl(server.kubeconfig, tmp_path_factory.mktemp("kubectl"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_applying_twice_changes_nothing(kubectl, tmp_path, folder):
    objects = [given for given in built(folder).values() if given["kind"] not in FOREIGN]
    path = tmp_path / "objects.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    kubectl("apply", "-f", path)
    try:
        again = kubectl("apply", "-f", path).splitlines()
        # kubectl reads a budget's selector as changed, each time.
        assert {line.split("/")[0] for line in again if not line.endswith(" unchanged")} <= {
            "poddisruptionbudget.policy"
        }
    finally:
        kubectl("delete", "-f", path)
