"""What `kubectl apply -k manifests` gives a cluster: sound objects, the rights needed, no more."""

import re

import pytest

from kubedsm import __version__
from kubedsm.cli.run import run
from kubedsm.config.settings import Configuration, load, load_file
from support.manifests import (
    BASE,
    MANIFESTS,
    MONITORING,
    NAMESPACE,
    ROOT,
    arguments,
    built,
    documents,
    kustomizations,
    made,
    pod,
)

COMPONENTS = MANIFESTS / "components"
FILES = sorted(MANIFESTS.rglob("*.yaml"))
BUILT = [folder for folder in kustomizations() if folder.parent.name != "components"]

OBJECTS = made(BASE)
DEPLOYMENT = OBJECTS["Deployment", "kubedsm"]
SPEC = DEPLOYMENT["spec"]
POD = pod()
LABELS = SPEC["template"]["metadata"]["labels"]
(CONTAINER,) = POD["containers"]


def settings(spec=None):
    """What the container is started with, as `kubedsm run` reads it."""
    name, *given = arguments(spec)
    assert name == run.name
    return run.make_context(name, given).params


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(MANIFESTS)))
def test_every_document_is_an_object(path):
    for given in documents(path):
        assert given["apiVersion"]
        assert given["kind"]
        named = path.name != "kustomization.yaml" and given["kind"] != "KubeDSMConfiguration"
        assert given["metadata"]["name"] if named else "metadata" not in given


def all_within(value):
    """Yield the value and everything nested in it."""
    yield value
    nested = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in nested:
        yield from all_within(each)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(MANIFESTS)))
def test_defaults_of_the_api_server_that_both_ways_to_apply_would_own_are_written_out(path):
    """Client-side apply leaves them to the API server; server-side apply then conflicts."""
    for given in filter(lambda value: isinstance(value, dict), all_within(documents(path))):
        for reference in filter(None, [given.get("fieldRef")]):
            assert reference["apiVersion"] == "v1"
        for constraints in filter(None, [given.get("matchConstraints")]):
            defaulted = {"matchPolicy", "namespaceSelector", "objectSelector"}
            assert constraints.keys() >= defaulted
            assert all(rule["scope"] == "*" for rule in constraints["resourceRules"])


def used_by(folder, kustomization):
    yield folder / "kustomization.yaml"
    for name in (*kustomization.get("resources", ()), *kustomization.get("components", ())):
        yield (folder / name).resolve()
    yield from (folder / patch["path"] for patch in kustomization.get("patches", ()))
    for given in kustomization.get("configMapGenerator", ()):
        yield from (folder / name for name in given["files"])


def test_every_file_is_either_applied_or_an_example():
    used = {path for given in kustomizations().items() for path in used_by(*given)}
    names = ("example-workload.yaml", "example-stateful-set.yaml", "loadgen-job.yaml")
    examples = {MANIFESTS / name for name in names}
    files = {path for path in MANIFESTS.rglob("*") if path.is_file()}
    assert {path for path in used if path.is_file()} | examples == files
    assert {path for path in used if path.is_dir()} == {BASE, *COMPONENTS.iterdir()}


def test_all_of_it_is_in_its_namespace_and_bears_its_name():
    kustomization = kustomizations()[BASE]
    assert (
        kustomization["namespace"]
        == NAMESPACE
        == OBJECTS["Namespace", NAMESPACE]["metadata"]["name"]
    )
    assert kustomization["labels"] == [{"pairs": LABELS}]
    assert {name for _, name in OBJECTS} == {"kubedsm", "kubedsm-approvals", "kubedsm-metrics"}
    assert all(given["metadata"]["namespace"] == NAMESPACE for given in made(MONITORING).values())


def test_the_configuration_is_the_defaults():
    text = OBJECTS["ConfigMap", "kubedsm"]["data"]["config.yaml"]
    assert load(text, "config.yaml") == Configuration()


def test_a_changed_configuration_makes_no_other_config_map():
    for kustomization in kustomizations().values():
        for given in kustomization.get("configMapGenerator", ()):
            assert given["options"]["disableNameSuffixHash"] is True


def test_it_reads_the_configuration_of_its_own_namespace():
    given = settings()
    assert str(given["config_map"]) == f"{NAMESPACE}/kubedsm"
    assert ("ConfigMap", given["config_map"].name) in OBJECTS
    assert given["resource_namespace"] == NAMESPACE
    (variable,) = CONTAINER["env"]
    assert variable["name"] == "POD_NAMESPACE"
    assert variable["valueFrom"] == {
        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    }


def test_two_replicas_agree_on_who_leads():
    assert SPEC["replicas"] == 2
    given = settings()
    assert given["leader_elect"] is True
    assert given["resource_name"] == "kubedsm"


def test_a_rollout_and_a_drain_leave_one_of_them():
    assert SPEC["strategy"]["type"] == "RollingUpdate"
    assert SPEC["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    budget = OBJECTS["PodDisruptionBudget", "kubedsm"]["spec"]
    assert budget == {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}}


def test_one_node_does_not_take_both_with_it():
    affinity = POD["affinity"]["podAntiAffinity"]
    (term,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["podAffinityTerm"] == {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": LABELS},
    }


def test_it_has_time_to_end_its_moves():
    assert settings()["grace_period"] < POD["terminationGracePeriodSeconds"]


def test_it_goes_before_the_pods_that_it_places():
    assert POD["priorityClassName"] == "kubedsm"
    given = OBJECTS["PriorityClass", "kubedsm"]
    # The highest of those that are not Kubernetes' own.
    assert given["value"] == 1_000_000_000
    assert not given.get("globalDefault")


def test_it_runs_restricted():
    assert CONTAINER["securityContext"]["readOnlyRootFilesystem"] is True
    labels = OBJECTS["Namespace", NAMESPACE]["metadata"]["labels"]
    for mode in ("enforce", "warn", "audit"):
        assert labels[f"pod-security.kubernetes.io/{mode}"] == "restricted"


def example(name, kind):
    (found,) = (each for each in documents(MANIFESTS / name) if each["kind"] == kind)
    return found


@pytest.mark.parametrize(
    "pod_spec",
    [
        POD,
        example("example-workload.yaml", "Deployment")["spec"]["template"]["spec"],
        example("example-stateful-set.yaml", "StatefulSet")["spec"]["template"]["spec"],
        example("loadgen-job.yaml", "Job")["spec"]["template"]["spec"],
    ],
    ids=["scheduler", "example", "stateful", "loadgen"],
)
def test_a_restricted_namespace_accepts_its_pods(pod_spec):
    assert pod_spec["securityContext"]["runAsNonRoot"] is True
    assert pod_spec["securityContext"]["runAsUser"] > 0
    assert pod_spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod_spec["containers"]:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_a_kubelet_and_prometheus_ask_where_it_listens():
    (port,) = CONTAINER["ports"]
    assert settings()["metrics_address"] == ("", port["containerPort"])
    probes = {
        name: CONTAINER[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")
    }
    assert {probe["port"] for probe in probes.values()} == {port["name"]}
    paths = {name: probe["path"] for name, probe in probes.items()}
    assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    service = OBJECTS["Service", "kubedsm-metrics"]["spec"]
    assert service["selector"] == LABELS == SPEC["selector"]["matchLabels"]
    (served,) = service["ports"]
    assert (served["port"], served["targetPort"]) == (port["containerPort"], port["name"])
    monitor = made(MONITORING)["ServiceMonitor", "kubedsm"]["spec"]
    (endpoint,) = monitor["endpoints"]
    assert endpoint["port"] == served["name"]
    assert monitor["selector"]["matchLabels"] == LABELS


def test_the_page_is_for_port_forwards_alone_unless_a_token_is_asked_for():
    assert (settings()["page"], settings()["page_address"]) == (True, None)
    (patch,) = documents(COMPONENTS / "page" / "deployment.yaml")
    spec = patch["spec"]["template"]["spec"]
    (container,), (volume, kept) = spec["containers"], spec["volumes"]
    (port,), (mount, writable) = container["ports"], container["volumeMounts"]
    assert container["args"][: len(CONTAINER["args"])] == CONTAINER["args"]
    given = settings(spec)
    assert given["page_address"] == ("", port["containerPort"])
    assert str(given["page_token_file"].parent) == mount["mountPath"]
    # A file of its own would not follow the Secret.
    assert "subPath" not in mount
    assert mount["name"] == volume["name"]
    assert volume["secret"] == {"secretName": "kubedsm-page"}
    # The history is on the only volume that the container writes to; the base keeps none.
    assert settings()["page_history"] is None
    assert str(given["page_history"]) == writable["mountPath"]
    assert writable["name"] == kept["name"]
    assert kept["emptyDir"] == {"sizeLimit": "64Mi"}
    (service,) = documents(COMPONENTS / "page" / "service.yaml")
    (served,) = service["spec"]["ports"]
    assert served["targetPort"] == port["name"]
    assert service["spec"]["selector"] == LABELS
    assert given["page_hosts"] == (f"{service['metadata']['name']}.{NAMESPACE}.svc",)


def test_other_pods_reach_its_metrics_from_the_monitoring_namespace_only():
    (policy,) = documents(COMPONENTS / "network-policy" / "networkpolicy.yaml")
    spec = policy["spec"]
    assert spec["podSelector"] == {"matchLabels": LABELS}
    assert spec["policyTypes"] == ["Ingress"]
    sources = {rule["ports"][0]["port"]: rule.get("from") for rule in spec["ingress"]}
    assert set(sources) == {"metrics", "page"}
    [monitoring] = sources["metrics"]
    assert monitoring == {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}
    }
    (patch,) = documents(COMPONENTS / "page" / "deployment.yaml")
    (container,) = patch["spec"]["template"]["spec"]["containers"]
    named = {port["name"] for port in CONTAINER["ports"] + container["ports"]}
    assert named == set(sources)


#: tools that build images or export them, and the prefix that they give to a short name
PREFIXES = {"docker": "docker.io/library/", "podman": "localhost/"}
BUILT_BY_HAND = (
    *("README.md", "Dockerfile", "k3s-lab/README.md"),
    *("docs/how-to/build-image.md", "docs/how-to/install.md"),
)


@pytest.mark.parametrize("path", [*BUILT_BY_HAND, "manifests/overlays/k3s/kustomization.yaml"])
def test_images_are_built_under_the_name_that_the_pods_ask_for(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    found = re.findall(r"(docker|podman) (?:build [^#\n]*?-t|save) (\S*kubedsm:\S+)", text)
    assert found
    for tool, name in found:
        full = name if "/" in name else PREFIXES[tool] + name
        assert full == f"{PREFIXES['docker']}{CONTAINER['image']}", (tool, name)


def test_it_does_not_wait_for_itself():
    assert POD.get("schedulerName", "default-scheduler") != Configuration().scheduler_name


def test_the_image_is_the_one_the_dockerfile_makes():
    (image,) = kustomizations()[MANIFESTS]["images"]
    assert CONTAINER["image"] == f"{image['name']}:{image['newTag']}" == f"kubedsm:{__version__}"
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert f"docker build -t {CONTAINER['image']} ." in dockerfile
    assert f"USER {POD['securityContext']['runAsUser']}:" in dockerfile


def test_the_example_opts_in_and_is_served():
    deployment = example("example-workload.yaml", "Deployment")
    service = example("example-workload.yaml", "Service")
    budget = example("example-workload.yaml", "PodDisruptionBudget")
    template = deployment["spec"]["template"]
    assert budget["spec"]["selector"] == deployment["spec"]["selector"]
    assert budget["spec"]["maxUnavailable"] < deployment["spec"]["replicas"]
    assert all(c["lifecycle"]["preStop"] for c in template["spec"]["containers"])
    assert template["spec"]["schedulerName"] == Configuration().scheduler_name
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    assert all(c["resources"]["requests"] for c in template["spec"]["containers"])


def test_the_component_that_only_suggests_has_a_sound_configuration():
    assert load_file(COMPONENTS / "suggest-only" / "config.yaml").suggester.mode == "suggest"


@pytest.mark.parametrize("folder", BUILT, ids=lambda folder: str(folder.relative_to(MANIFESTS)))
def test_kubectl_builds_it(folder):
    objects = built(folder)
    component = COMPONENTS / folder.name
    more = made(component) if component.is_dir() else {}
    assert set(objects) == {*OBJECTS, *more}
    assert all(given["metadata"]["labels"].items() >= LABELS.items() for given in objects.values())
    for key, given in {**OBJECTS, **more}.items():
        assert objects[key]["metadata"].get("namespace") == given["metadata"].get("namespace")


def test_the_overlays_change_what_they_say():
    plain = built(MANIFESTS)
    assert built(BASE) == plain

    def changed(name):
        found = built(MANIFESTS / "overlays" / name)
        return {key: found[key] for key in plain if found[key] != plain[key]}

    assert changed("monitoring") == {}
    [(_, single)] = changed("single-replica").items()
    assert single["spec"].pop("replicas") == 1
    assert single["spec"] == {k: v for k, v in SPEC.items() if k != "replicas"}
    for name in ("k3s", "page"):
        assert set(changed(name)) == {("Deployment", "kubedsm")}
    [(_, own)] = changed("own").items()
    assert set(load(own["data"]["config.yaml"], "config.yaml").services) == {"*"}
    suggesting = changed("suggest-only")
    assert set(suggesting) == {("ClusterRole", "kubedsm"), ("ConfigMap", "kubedsm")}
    text = suggesting["ConfigMap", "kubedsm"]["data"]["config.yaml"]
    assert load(text, "config.yaml").suggester.mode == "suggest"


def test_the_overlay_of_ones_own_in_the_documents_can_be_built(tmp_path):
    text = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
    (example,) = re.findall(
        r"```yaml\n(.*?)```", text.partition("\n### An overlay of your own\n")[2], re.DOTALL
    )[:1]
    (tmp_path / "kubedsm").symlink_to(ROOT)
    own = tmp_path / "own"
    own.mkdir()
    (own / "kustomization.yaml").write_text(example)
    (own / "config.yaml").write_text("preemption: enabled")
    objects = built(own)
    assert set(objects) == {
        (kind, name if kind != "Namespace" else "scheduling")
        for kind, name in {*OBJECTS, *made(MONITORING)}
    }
    assert {o["metadata"].get("namespace", "scheduling") for o in objects.values()} == {
        "scheduling"
    }
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        assert objects[kind, "kubedsm"]["subjects"][0]["namespace"] == "scheduling"
    (container,) = objects["Deployment", "kubedsm"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/kubedsm:0.1.0"
    assert objects["ConfigMap", "kubedsm"]["data"] == {"config.yaml": "preemption: enabled"}
