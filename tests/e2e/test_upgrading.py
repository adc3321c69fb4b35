"""Configuration of a former version, and the image that the manifests name, by kubectl."""

import json

import pytest
import yaml

from kubedsm import __version__
from support.command_line import kubedsm
from support.kubectl import Kubectl, needs_kubectl
from support.manifests import MANIFESTS, built
from support.processes import Scheduler, write

pytestmark = [pytest.mark.http, needs_kubectl]

REMOVED = "suggester: {mode: suggest, minGain: 0.5}"
UNKNOWN = "suggester: {mode: apply, leastGain: 0.5}"
NAMED = "suggester.minGain is deprecated and ignored: migration.price"


@pytest.fixture(scope="module")
def kubectl(server, tmp_path_factory):
    return Kubectl(server.kubeconfig, tmp_path_factory.mktemp("upgrading"))


def findings(server, group):
    """Return verdict, text and page of the findings of `kubedsm check` in a group."""
    nowhere = ("--server", "http://127.0.0.1:9")  # versions by the image alone
    done = kubedsm("check", "--kubeconfig", server.kubeconfig, *nowhere, "-o", "json")
    found = [each for each in json.loads(done.stdout)["checks"] if each["group"] == group]
    return [(each["verdict"], each["text"], each.get("docs") or "") for each in found]


def test_a_removed_key_is_accepted_with_a_warning_and_an_unknown_one_refused(
    server, kubectl, tmp_path
):
    def configure(text):
        metadata = {"name": "kubedsm", "namespace": "kubedsm"}
        found = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        document = yaml.safe_dump({**found, "data": {"config.yaml": text}})
        kubectl("apply", "-f", write(tmp_path, "configuration.yaml", document))

    def refusals():
        where = ("-n", "kubedsm", "--field-selector", "reason=ConfigurationRefused")
        return kubectl(*where, "get", "events", "-o", "jsonpath={.items[*].message}")

    configure(REMOVED)
    with Scheduler(server, "--configmap", "kubedsm/kubedsm") as scheduler:
        assert scheduler.until("configuration key deprecated")["key"].startswith(NAMED)
        scheduler.until("leading")
        configure(f"{REMOVED}\nedge: {{headroom: 10%}}")
        assert "edge.headroom" in scheduler.until("configuration applied")["changed"]
        assert refusals() == ""
        (warned,) = [said for said in findings(server, "configuration") if NAMED in said[1]]
        assert (warned[0], warned[2]) == ("warn", "docs/how-to/upgrade.md#two-versions-at-once")
        configure(UNKNOWN)
        assert "leastGain" in scheduler.until("configuration refused")["error"]
        server.until(lambda: "leastGain" in refusals())


def test_the_manifests_name_the_image_by_tag_and_a_check_compares_versions(server, kubectl):
    (container,) = built(MANIFESTS)["Deployment", "kubedsm"]["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["image"] == f"kubedsm:{__version__}"
    kubectl("apply", "-k", MANIFESTS)

    def judge(image):
        kubectl("-n", "kubedsm", "set", "image", "deployment/kubedsm", f"kubedsm={image}")
        (found,) = [said for said in findings(server, "scheduler") if image in said[1]]
        return found

    image = f"registry.example:5000/{container['image']}@sha256:{'0' * 64}"
    assert judge(image) == ("ok", f"image {image}, as this command", "")
    verdict, text, docs = judge("kubedsm:0.0.9")
    assert (verdict, docs) == ("warn", "docs/how-to/upgrade.md")
    assert text == f"scheduler 0.0.9 (kubedsm:0.0.9) and this command, {__version__}, differ"
