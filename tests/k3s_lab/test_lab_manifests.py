"""What the lab applies: sound objects, that fit one another and the commands that they start."""

import random
import re
import shutil
import subprocess

import pytest
import yaml

from kubedsm.config.settings import load_file
from kubedsm.model.quantities import parse_millis
from kubedsm.process.clock import SystemClock
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import SERVED
from kubedsm_lab.emulator.paper import SERVICES, paper_cluster
from loadgen.cli import loadgen
from support.lab import LAB, nodes, services
from support.manifests import MANIFESTS, built, documents

MONITORING = LAB / "manifests" / "monitoring"
PROMTOOL = shutil.which("promtool")
#: as in deploy/manifests/deployment.yaml of kubernetes-sigs/prometheus-adapter, v0.12.0, which has
#: no command: the image has the adapter as its entry point, at another path than other builds
ADAPTER = "registry.k8s.io/prometheus-adapter/prometheus-adapter:v0.12.0"
SCRAPING = MONITORING / "scraping.yml"
#: of the papers' cluster, and what its pods ask for
SCALE = 4
MADE = {(given["kind"], given["metadata"]["name"]): given for given in services("kubedsm")}


def pods(objects):
    """The pod templates among them, by their owner's name."""
    owners = (o for o in objects.values() if o["kind"] in ("Deployment", "DaemonSet"))
    return {owner["metadata"]["name"]: owner["spec"]["template"] for owner in owners}


def test_an_api_server_takes_the_services_which_are_the_papers_at_a_quarter():
    api = ApiServer(SystemClock(), random.Random(0))
    resources = {(r.api_version, r.kind): r for r in SERVED}
    for given in MADE.values():
        resource = resources[given["apiVersion"], given["kind"]]
        api.create(resource, given, namespace=given["metadata"].get("namespace"))
    for name, template in pods(MADE).items():
        (container,) = template["spec"]["containers"]
        asked = container["resources"]["requests"]
        assert parse_millis(asked["cpu"]) * SCALE == SERVICES[name].cores * 1000
        assert parse_millis(asked["memory"]) * SCALE == pytest.approx(
            parse_millis(SERVICES[name].memory), rel=0.01
        )
    assert list(pods(MADE)) == list(SERVICES)
    papers = [
        (
            node["metadata"]["name"],
            node["metadata"]["labels"]["kubedsm.io/tier"],
            parse_millis(node["status"]["allocatable"]["cpu"]) // SCALE,
            parse_millis(node["status"]["allocatable"]["memory"]) // (SCALE * 10**9),
        )
        for node in paper_cluster().nodes
    ]
    assert nodes("nodes") == papers
    assert [node for node in nodes("nodes.machines") if node[1] != "server"] == papers


def test_the_services_differ_between_policies_by_scheduler():
    for ours, theirs in zip(MADE.values(), services("default-scheduler"), strict=True):
        if ours["kind"] != "Deployment":
            assert ours == theirs
            continue
        mine, other = (o["spec"]["template"]["spec"] for o in (ours, theirs))
        assert (mine["schedulerName"], other["schedulerName"]) == ("kubedsm", "default-scheduler")
        assert mine | {"schedulerName": other["schedulerName"]} == other


def test_with_sites_each_service_has_users_at_one_and_prefers_their_zone():
    found = {(o["kind"], o["metadata"]["name"]): o for o in services("kubedsm", "north '' south")}
    assert [t["metadata"]["annotations"]["kubedsm.io/demand"] for t in pods(found).values()] == [
        "north=1", "south=1", "north=1", "south=1"
    ]  # fmt: skip
    for (kind, name), given in found.items():
        plain = MADE[kind, name]
        if kind == "Service":
            assert given["spec"].pop("trafficDistribution") == "PreferClose"
        elif kind == "Deployment":
            del given["spec"]["template"]["metadata"]["annotations"]
        assert given == plain


def test_pods_are_served_scaled_and_started_as_they_say():
    for name, template in pods(MADE).items():
        (container,) = template["spec"]["containers"]
        (port,) = container["ports"]
        served = MADE["Service", name]["spec"]
        assert served["selector"].items() <= template["metadata"]["labels"].items()
        assert served["ports"][0]["targetPort"] == port["name"]
        target = MADE["HorizontalPodAutoscaler", name]["spec"]["scaleTargetRef"]
        assert target == {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        assert container["command"] == ["loadgen"]
        command, *given = container["args"]
        settings = loadgen.get_command(None, command).make_context(command, given).params
        assert (settings["port"], settings["name"]) == (port["containerPort"], name)
        # Half of what a pod can answer is what its autoscaler keeps it at.
        (metric,) = MADE["HorizontalPodAutoscaler", name]["spec"]["metrics"]
        kept = float(metric["pods"]["target"]["averageValue"])
        assert kept == pytest.approx(settings["concurrency"] / settings["service_time"] / 2)
        assert settings["drain"] < template["spec"]["terminationGracePeriodSeconds"]


def test_the_scheduler_differs_from_that_of_manifests_in_its_configuration_only():
    plain, ours = built(MANIFESTS), built(LAB / "manifests" / "kubedsm")
    assert [key for key in plain | ours if plain.get(key) != ours.get(key)] == [
        ("ConfigMap", "kubedsm")
    ]
    settings = load_file(LAB / "manifests" / "kubedsm" / "config.yaml")
    assert settings.load_aware.prometheus == "http://prometheus.lab-monitoring:9090"


def test_what_the_pods_of_monitoring_mount_and_ask_is_there():
    objects = built(MONITORING)
    assert ("Service", "prometheus") in objects
    for name, template in pods(objects).items():
        spec = template["spec"]
        account = spec.get("serviceAccountName")
        assert account is None or ("ServiceAccount", account) in objects
        for volume in spec.get("volumes", ()):
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in objects, name
        mounted = {m["name"] for c in spec["containers"] for m in c.get("volumeMounts", ())}
        assert mounted == {volume["name"] for volume in spec.get("volumes", ())}
    for (kind, name), given in objects.items():
        assert kind != "Service" or given["spec"]["selector"] == {"app": name}
        assert not given["apiVersion"].startswith("monitoring.coreos.com")
    (adapter,) = pods(objects)["prometheus-adapter"]["spec"]["containers"]
    assert (adapter["image"], "command" in adapter) == (ADAPTER, False)
    images = [c["image"] for t in pods(objects).values() for c in t["spec"]["containers"]]
    assert [image for image in images if image.count("/") > 1] == [ADAPTER]


def test_monitoring_prefers_the_control_plane_and_never_takes_edge_capacity():
    for kind in ("prometheus", "grafana", "prometheus-adapter"):
        template = built(MONITORING)["Deployment", kind]["spec"]["template"]["spec"]
        assert "nodeSelector" not in template  # its value differs between distributions
        affinity = template["affinity"]["nodeAffinity"]
        (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert term["matchExpressions"] == [
            {"key": "kubedsm.io/tier", "operator": "NotIn", "values": ["edge"]}
        ]


def test_autoscalers_and_queries_ask_for_what_there_is():
    (rules,) = documents(MONITORING / "adapter-config.yaml")
    asked = {
        metric["pods"]["metric"]["name"]
        for (kind, _), given in MADE.items()
        if kind == "HorizontalPodAutoscaler"
        for metric in given["spec"]["metrics"]
    }
    assert asked == {rule["name"]["as"] for rule in rules["rules"]}
    (scraping,) = documents(SCRAPING)
    jobs = {job["job_name"] for job in scraping["scrape_configs"]}
    asked = (LAB / "manifests" / "kubedsm" / "config.yaml", MONITORING / "adapter-config.yaml")
    assert {job for path in asked for job in re.findall(r'job="(\w+)"', path.read_text())} <= jobs


@pytest.mark.skipif(PROMTOOL is None, reason="not installed: promtool (Debian's)")
@pytest.mark.parametrize("path", sorted(LAB.rglob("*.yml")), ids=lambda path: path.name)
def test_prometheus_takes_its_configuration(tmp_path, path):
    (given,) = documents(path)
    for job in given["scrape_configs"]:
        # Debian's Prometheus knows of no Kubernetes.
        job.pop("kubernetes_sd_configs", None)
    checked = tmp_path / path.name
    checked.write_text(yaml.safe_dump(given))
    done = subprocess.run(
        [PROMTOOL, "check", "config", "--syntax-only", checked],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
