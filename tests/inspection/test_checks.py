"""Checks of an installation: for each what it finds, and remedies and pages that exist."""

import re
from pathlib import Path

import attrs
import pytest

from kubedsm.config.settings import load
from kubedsm.inspection.checks import CHECKS, parts_needed, run_checks
from kubedsm.inspection.gathering import SchedulerProcess
from kubedsm.inspection.stranded import find_stranded
from kubedsm.kube.calls.adoption import Template
from kubedsm.kube.calls.inspection import DetachedPod, Installed, WaitingPod
from kubedsm.kube.calls.leases import term_of
from kubedsm.model.model import Taint, Tier, Wishes, Workload
from kubedsm.model.selecting import Budget, Service
from kubedsm.model.selectors import Requirement
from support.installations import NOW, PODS, WELL, changed, made_node, with_pods
from support.pods import made_pod

ROOT = Path(__file__).parents[2]
DEAD = term_of("kubedsm-0_1", 15.0, NOW - 100, 0)
#: of all pods of a namespace
ANY = ()
PROCESS = WELL.scheduler


def waits(name="cart-1", scheduler="kubedsm", message=""):
    return WaitingPod("shop", name, name, scheduler, NOW - 60, message)


def process(**fields):
    return changed(scheduler=attrs.evolve(PROCESS, **fields))


def on(name, node, **fields):
    return made_pod(name, node_name=node, **fields)


def configured(text):
    return changed(configuration=load(text, "test"))


UNREACHABLE = Taint("node.kubernetes.io/unreachable", "", "NoSchedule")
TEMPLATE = (Requirement("pod-template-hash", "In", ("1",)),)
#: a state, the verdict, and parts of the one finding that is not ok
CASES = {
    "old API server": (changed(version="v1.21.3"), "fail", "v1.21.3 is too old", "1.22"),
    "new API server": (changed(version="v1.99.0"), "warn", "newer than the tested 1.36"),
    "skew": (changed(skew=-7.0), "warn", "clock is 7 s behind this machine's", "NTP"),
    "no right": (
        changed(denied={"placing": (), "migrations": ("create pods/eviction",)}),
        "fail",
        "migrations: ServiceAccount kubedsm/kubedsm has no right to create pods/eviction",
        "kubedsm rbac -o yaml",
    ),
    "no tiers": (
        with_pods(*PODS, nodes=[made_node("e1", None)]),
        "fail",
        "no node is edge or cloud, so no pod is placed",
        "kubectl label node NAME kubedsm.io/tier=edge",
    ),
    "no cloud": (with_pods(*PODS, nodes=[made_node("e1")]), "warn", "no node is cloud"),
    "a node without tier": (
        with_pods(*PODS, nodes=[*WELL.snapshot.nodes.values(), made_node("x", None)]),
        "warn",
        "no pods for 1 node without a tier: x",
    ),
    "no sites": (
        with_pods(*PODS, nodes=[made_node("e1", labels={}), made_node("c1", Tier.CLOUD)]),
        "warn",
        "1 edge node without a site: e1",
        "kubedsm.io/site=SITE",
    ),
    "a lost node": (
        with_pods(*PODS, nodes=[made_node("e1", taints=(UNREACHABLE,)),
                                made_node("c1", Tier.CLOUD)]),
        "warn",
        "1 node not ready: e1",
    ),
    "invalid configuration": (
        changed(refusal="ConfigMap kubedsm/kubedsm, config.yaml: batch.idle: 5 is not a duration"),
        "fail",
        "version 0.1.0 refuses ConfigMap kubedsm/kubedsm, config.yaml: batch.idle: 5",
        "kubedsm config check",
    ),
    "no configuration": (changed(configured=False), "warn", "defaults apply"),
    "refused configuration": (
        process(
            metrics={"kubedsm_configuration_valid": 0.0},
            readiness="[+]configuration ok: generation 2 stays, a newer one is refused: f: no key",
        ),
        "fail",
        "the scheduler refuses f: no key",
    ),
    "deleted configuration": (
        attrs.evolve(
            process(
                metrics={"kubedsm_configuration_valid": 0.0},
                readiness="[+]configuration ok: generation 2 stays, a newer one is refused: gone",
            ),
            configured=False,
        ),
        "fail",
        "the scheduler refuses gone",
    ),
    "deprecated key": (
        changed(deprecated=["suggester.minGain is deprecated and ignored: a remedy"]),
        "warn",
        "ConfigMap kubedsm/kubedsm: suggester.minGain is deprecated and ignored: a remedy",
        "remove the key",
    ),
    "unmatched service": (
        configured("services: {shop/wob: {qos: 1}}"), "warn", "did you mean shop/web?",
    ),
    "silent Prometheus": (
        configured("loadAware: {prometheus: 'http://prometheus:9090'}"),
        "warn",
        "Prometheus gives no measured load",
    ),
    "no Deployment": (
        changed(deployment=None, term=None, scheduler=None), "fail",
        "Deployment kubedsm/kubedsm is absent", "kubectl apply -k manifests",
    ),
    "half a Deployment": (
        changed(deployment=Installed(("kubedsm:0.1.0",), 2, 1)), "warn", "1 of 2 replicas ready",
    ),
    "another version": (
        changed(deployment=Installed(("kubedsm:0.0.9",), 2, 2),
                scheduler=attrs.evolve(PROCESS, version="0.0.9")),
        "warn",
        "scheduler 0.0.9 (kubedsm:0.0.9) and this command, 0.1.0, differ",
    ),
    "dead holder": (
        changed(term=DEAD, scheduler=None), "fail", "was not renewed for 100 s", "get pods",
    ),
    "a slow clock of the leader": (
        changed(term=DEAD, renews=True), "warn",
        "clock of leader kubedsm-0 is 100 s behind the API server's", "NTP",
    ),
    "a fast clock of the leader": (
        changed(term=term_of("kubedsm-0_1", 15.0, NOW + 60, 0)), "warn", "60 s ahead of the API",
    ),
    "free Lease": (
        changed(term=term_of("", 1.0, NOW, 3), scheduler=None), "fail", "has no holder",
    ),
    "not ready": (
        process(ready=False, readiness="[-]synced failed: not listed yet: pods\n"),
        "fail",
        "pod kubedsm-0 is not ready: [-]synced failed: not listed yet: pods",
    ),
    "a failing watch": (process(troubled=("Pod",)), "warn", "the watch of Pod fails"),
    "a caught error": (
        process(metrics={"kubedsm_caught_errors_total": 2.0}), "warn",
        "2 internal errors caught", "support-bundle",
    ),
    "a pause": (process(metrics={"kubedsm_paused": 1.0}), "warn", "migrations are paused"),
    "a mistyped pause": (changed(pause="paused: 'ture' is neither"), "warn", "paused: 'ture'"),
    "nothing opted in": (with_pods(), "warn", "no workload is opted in", "schedulerName: kubedsm"),
    "only a finished pod": (
        with_pods(on("web-1", "e1", cpu=0, phase="Succeeded")), "warn", "no workload is opted in",
    ),
    "a label without its policy": (
        changed(opted_in=["shop"], has_policy=False), "fail",
        "1 namespace opted in, but the admission policy is absent: shop", "overlays/opt-in",
    ),
    "no requests": (
        with_pods(on("web-1", "e1", cpu=0)), "warn",
        "1 workload without requests: deployment/shop/web",
    ),
    "an invalid annotation": (
        with_pods(on("web-1", "e1", wishes=Wishes(ignored=("qos 2 is not",)))), "warn",
        "pod shop/web-1: qos 2 is not",
    ),
    "a budget that never allows": (
        changed(budgets=[Budget("shop", "web", ANY, 1, 1)]), "warn",
        "PodDisruptionBudget shop/web blocks every migration of deployment/shop/web: 1 of 1",
    ),
    "a Service that ignores zones": (
        with_pods(on("a", "e1"), on("b", "c1"), services=[Service("shop", "web", ANY, False)]),
        "warn",
        "1 Service of pods in both tiers ignore zones: shop/web",
        "trafficDistribution: PreferClose",
    ),
    "a Service that ignores sites": (
        with_pods(
            on("a", "e1"),
            services=[Service("shop", "web", ANY, False)],
            configuration=load("services: {shop/web: {demand: {north: 1}}}", "x"),
        ),
        "warn",
        "Service shop/web sends requests to any site, and shop/web has demand by site",
        "trafficDistribution",
    ),
    "a Service by template": (
        with_pods(on("a", "e1", labels={"pod-template-hash": "1"}),
                  services=[Service("shop", "web", TEMPLATE, True, by_template=True)]),
        "warn",
        "Service shop/web selects a template hash",
    ),
    "an unschedulable pod": (
        changed(waiting=[waits(message="0/2 nodes are available.")]), "warn",
        "1 pod unschedulable: shop/cart-1: 0/2 nodes", "kubedsm explain --all",
    ),
    "a scheduler that is none": (
        changed(waiting=[waits(scheduler="kube-dsm")]), "warn",
        "pod shop/cart-1 waits for the scheduler kube-dsm, which is probably none",
        "set schedulerName: kubedsm",
    ),
    "a forged label": (
        changed(detached=[DetachedPod("shop", "web-1", "u", "e1", "", 0.0)]), "warn",
        "1 pod with a label kubedsm.io/migrating of no migration: shop/web-1",
    ),
    "an old migration": (
        changed(detached=[DetachedPod("shop", "web-1", "u", "c1", "e1", NOW - 3600)]), "warn",
        "1 orphaned migration: shop/web-1",
    ),
}  # fmt: skip
#: with the state of a Lease, of several findings
STRANDED = changed(
    term=DEAD,
    scheduler=None,
    waiting=[waits("a"), waits("b")],
    detached=[DetachedPod("shop", "web-1", "u", "c1", "e1", NOW - 10)],
)
QUIET = {
    "both well": WELL,
    "a version by the image alone": changed(
        deployment=Installed(("registry:5000/kubedsm:0.1.0@sha256:00",), 2, 2), scheduler=None
    ),
    "an opted-in namespace": changed(opted_in=["shop"], has_policy=True),
    "an unknown policy": changed(opted_in=["shop"]),
    "a budget of others": changed(budgets=[Budget("other", "web", ANY, 1, 1)]),
    "a budget that allows": changed(budgets=[Budget("shop", "web", ANY, 1, 2)]),
    "a Service with zones": with_pods(
        on("a", "e1"), on("b", "c1"), services=[Service("shop", "web", ANY, prefers_zone=True)]
    ),
    "a migration in progress": changed(
        detached=[DetachedPod("shop", "web-1", "u", "c1", "e1", NOW - 10)]
    ),
    "a pod of the default scheduler": changed(waiting=[waits(scheduler="default-scheduler")]),
    "a pod before its first attempt": changed(waiting=[waits()]),
    "measured load": changed(
        configuration=load("loadAware: {prometheus: 'http://prometheus:9090'}", "test"),
        scheduler=SchedulerProcess(
            "x", ready=True, version="0.1.0", metrics={"kubedsm_load_age_seconds": 20.0}
        ),
    ),
}


def found(state, **options):
    return [each for each in run_checks(state, **options) if each.verdict != "ok"]


@pytest.mark.parametrize("case", CASES)
def test_each_check_finds_what_it_is_for(case):
    state, verdict, text, *remedy = CASES[case]
    findings = [each for each in found(state) if text in each.text]
    assert [each.verdict for each in findings] == [verdict], found(state)
    assert all(part in findings[0].remedy for part in remedy), findings[0].remedy


@pytest.mark.parametrize("case", QUIET)
def test_nothing_is_found_in(case):
    assert found(QUIET[case]) == []


def test_pods_and_migrations_without_a_leader_are_found():
    texts = [finding.text for finding in found(STRANDED)]
    assert any("2 pods wait for a scheduler that does not run: shop/a, shop/b" in t for t in texts)
    assert any("1 orphaned migration: shop/web-1" in text for text in texts)


def test_the_remedy_for_stranded_pods_depends_on_how_they_opted_in():
    template = Template(Workload("shop", "Deployment", "web"), "u", 1, "kubedsm")
    by_template, by_policy = made_pod("web-1"), made_pod("cart-1", workload="cart")
    state = with_pods(
        by_template,
        by_policy,
        term=DEAD,
        scheduler=None,
        waiting=[waits("web-1"), waits("cart-1")],
        templates=[template],
    )
    [finding] = [each for each in found(state) if "does not run" in each.text]
    assert finding.remedy == (
        "start a replica, or release them; kubedsm opt-out deployment/shop/web; kubectl delete pods"
        " -A --field-selector=spec.schedulerName=kubedsm,spec.nodeName=,status.phase=Pending"
    )


def test_the_remedy_warns_of_pods_that_nobody_creates_again():
    alone = attrs.evolve(made_pod("job-1"), workload=Workload("shop", "Pod", "job-1"))
    [remedy] = find_stranded([alone, made_pod("web-1")], [], "kubedsm").list_remedies()
    assert remedy.startswith("kubectl delete pods -A ")
    assert "(which also deletes shop/job-1, and no controller creates them again)" in remedy
    assert find_stranded([alone], [], "kubedsm").list_remedies() == []


def test_before_the_installation_only_the_cluster_counts():
    state = changed(
        term=None,
        deployment=None,
        configured=False,
        scheduler=None,
        denied={"install": ("create clusterroles.rbac.authorization.k8s.io",)},
    )
    [finding] = found(state, before=True)
    assert finding.text.startswith("admin has no right to create clusterroles")
    assert finding.verdict == "fail"
    assert "lease" not in parts_needed(before=True)
    assert "scheduler" in parts_needed()


def test_a_part_that_cannot_be_read_is_one_warning():
    state = changed(errors={"snapshot": "403 Forbidden", "budgets": "no answer"})
    texts = [finding.text for finding in found(state)]
    assert texts == ["snapshot not checked: 403 Forbidden", "budgets not checked: no answer"]


def test_remedies_and_pages_exist():
    findings = [f for state, *_ in CASES.values() for f in found(state)]
    findings += found(STRANDED)
    for finding in findings:
        assert finding.remedy, finding
        page, _, anchor = finding.docs.partition("#")
        headings = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(), re.MULTILINE)
        anchors = [
            re.sub(r"[^\w -]", "", each).strip().lower().replace(" ", "-") for each in headings
        ]
        assert not anchor or anchor in anchors, finding.docs


def test_every_check_finds_something_in_a_case():
    states = [state for state, *_ in CASES.values()]
    states += [STRANDED, changed(denied={"install": ("create namespaces",)})]
    silent = {
        check.find.__name__
        for check in CHECKS
        if all(f.verdict == "ok" for state in states for f in check.find(state))
    }
    assert silent == set()
