"""Checks of an installation: one function per subject, of one gathered cluster state.

Each yields findings. A finding that is not ok names a remedy and a page of the documentation.
"""

import difflib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import attrs

from kubedsm.app.service_routing import list_spreading, routing_command
from kubedsm.config.mismatches import TOLD, list_unmatched, missing_tiers, why_unmatched
from kubedsm.explain.node import node_state
from kubedsm.inspection.gathering import ClusterState, Part
from kubedsm.inspection.stranded import find_stranded
from kubedsm.kube.calls.permissions import FEATURES
from kubedsm.model.model import Pod, Tier, Workload
from kubedsm.model.node_index import site_of
from kubedsm.model.sites import NOTHING_AWAY
from kubedsm.planner.plurals import counted, named

Verdict = Literal["ok", "warn", "fail"]

#: oldest API server with every API in use, and the newest tested one
OLDEST, NEWEST = (1, 22), (1, 36)
#: seconds
SKEW = 5.0
#: a migration counts as orphaned after this multiple of migration.deadline
ORPHANED_AFTER = 10
_INSTALL, _TROUBLE = "docs/how-to/install.md", "docs/how-to/troubleshoot.md"
_MONITOR, _RBAC = "docs/how-to/monitor.md", "docs/reference/rbac.md"
_ADOPT = "docs/how-to/adopt.md"
_AS_ADMINISTRATOR = "check as a user with the right, such as the cluster's administrator"
#: without any of these parts nothing was checked
_ESSENTIAL: set[Part] = {"configuration", "lease", "snapshot", "deployment"}


@attrs.frozen
class Finding:
    """Result of a check of `kubedsm check`: a sentence, and unless ok a remedy and a documentation
    page.
    """

    #: of the check
    group: str = attrs.field(default="", kw_only=True)
    verdict: Verdict
    text: str
    remedy: str = ""
    docs: str = ""


@attrs.frozen
class Check:
    """One check of `kubedsm check`, with its group and the parts of the cluster state that it
    evaluates.
    """

    group: str
    find: Callable[[ClusterState], Iterator[Finding]]
    needs: tuple[Part, ...] = ()
    #: whether the check applies to an installation, to a cluster before it, or to both
    phase: Literal["after", "before", "both"] = "after"


def run_checks(state: ClusterState, *, before: bool = False) -> list[Finding]:
    """Run all checks of an installation, or those before installing; cluster state that could not
    be read yields warnings.
    """
    results: list[Finding] = []
    told: set[Part] = set()
    if state.errors.keys() >= _ESSENTIAL:
        text = f"{state.user or 'this user'} may read nothing of the installation"
        results.append(Finding("fail", text, _AS_ADMINISTRATOR, _RBAC, group="cluster"))
    for check in CHECKS:
        if check.phase == ("after" if before else "before"):
            continue
        missing = [part for part in check.needs if part in state.errors]
        if not missing:
            results += (attrs.evolve(each, group=check.group) for each in check.find(state))
            continue
        for part in missing:
            if part not in told:
                told.add(part)
                unread = _explain_unread(part, state.errors[part])
                results.append(attrs.evolve(unread, group=check.group))
    return results


def parts_needed(*, before: bool = False) -> list[Part]:
    """Return the parts of the cluster state that these checks of `kubedsm check` evaluate."""
    checks = [check for check in CHECKS if check.phase != ("after" if before else "before")]
    return list(dict.fromkeys(part for check in checks for part in check.needs))


def _explain_unread(part: Part, why: str) -> Finding:
    remedy = _AS_ADMINISTRATOR
    if part == "scheduler":
        remedy = "needs the right to get pods/proxy; or run the command in the leader's pod"
    return Finding("warn", f"{part} not checked: {why}", remedy, _RBAC)


def check_version(state: ClusterState) -> Iterator[Finding]:
    found = re.match(r"v?(\d+)\.(\d+)", state.version)
    version = (int(found[1]), int(found[2])) if found else OLDEST
    text = f"API server {state.server}, {state.version}"
    docs = "docs/reference/kubernetes-support.md#versions"
    if version < OLDEST:
        least = ".".join(map(str, OLDEST))
        yield Finding("fail", f"{text} is too old", f"upgrade to {least} or newer", docs)
    elif version > NEWEST:
        newest = ".".join(map(str, NEWEST))
        yield Finding("warn", f"{text} is newer than the tested {newest}", "see the notes", docs)
    else:
        yield Finding("ok", text)


def check_clock(state: ClusterState) -> Iterator[Finding]:
    skew = state.skew
    if skew is not None and abs(skew) > SKEW:
        side = "ahead of" if skew > 0 else "behind"
        text = f"the API server's clock is {abs(skew):.0f} s {side} this machine's"
        yield Finding("warn", text, "synchronise clocks by NTP", f"{_TROUBLE}#no-replica-leads")
    elif skew is not None:
        yield Finding("ok", "clocks of API server and this machine agree")


def check_leader_clock(state: ClusterState) -> Iterator[Finding]:
    age = state.lease_age
    if state.is_led and age is not None and (state.renews or age < -SKEW):
        side = "behind" if age > 0 else "ahead of"
        text = f"clock of leader {state.leader} is {abs(age):.0f} s {side} the API server's"
        yield Finding("warn", text, "synchronise clocks by NTP", f"{_TROUBLE}#no-replica-leads")


def check_install_rights(state: ClusterState) -> Iterator[Finding]:
    denied = state.denied.get("install", ())
    if denied:
        text = f"{state.user or 'this user'} has no right to {', '.join(denied)}"
        yield Finding("fail", text, "install as an administrator", f"{_INSTALL}#4-apply")
    else:
        yield Finding("ok", f"{state.user or 'this user'} may install the manifests")


def check_rights(state: ClusterState) -> Iterator[Finding]:
    purposes = {feature.name: feature.does for feature in FEATURES}
    account = f"ServiceAccount {state.name}"
    for feature, denied in state.denied.items():
        if denied:
            text = f"{feature}: {account} has no right to {', '.join(denied)} ({purposes[feature]})"
            remedy = "kubedsm rbac -o yaml | kubectl apply -f -"
            yield Finding("fail", text, remedy, _RBAC)
    allowed = [feature for feature, denied in state.denied.items() if not denied]
    if allowed:
        yield Finding("ok", f"{account} has the rights of: {', '.join(allowed)}")


def check_tiers(state: ClusterState) -> Iterator[Finding]:
    nodes, tiers = list(state.snapshot.nodes.values()), state.configuration.tiers
    docs = f"{_INSTALL}#2-label-the-nodes"
    missing = missing_tiers(nodes, tiers)
    for text in dict.fromkeys(missing.values()):
        reason, _, command = text.partition(": ")
        verdict: Verdict = "fail" if len(missing) == len(Tier) else "warn"
        yield Finding(verdict, reason, command, docs)
    if not missing:
        counts = {tier: sum(node.tier is tier for node in nodes) for tier in Tier}
        yield Finding("ok", ", ".join(counted(n, f"{tier} node") for tier, n in counts.items()))
    without = sorted(node.name for node in nodes if node.tier is None)
    if without and len(missing) < len(Tier):
        text = f"no pods for {counted(len(without), 'node')} without a tier: {named(without)}"
        label = f"kubectl label node NAME {tiers.labels[0]}={min(tiers.edge)}"
        yield Finding("warn", text, f"{label}, unless that is intended", docs)


def check_sites(state: ClusterState) -> Iterator[Finding]:
    labels = state.configuration.site.label
    edge = [node for node in state.snapshot.nodes.values() if node.tier is Tier.EDGE]
    without = sorted(node.name for node in edge if not site_of(node, labels))
    if without and labels:
        text = f"{counted(len(without), 'edge node')} without a site: {named(without)}; a network"
        text += " partition of a site is then treated as the failure of its nodes"
        remedy = f"kubectl label node NAME {labels[0]}=SITE"
        yield Finding("warn", text, remedy, "docs/explanation/sites.md")
    elif edge:
        sites = {site_of(node, labels) for node in edge}
        yield Finding("ok", f"edge nodes belong to {counted(len(sites), 'site')}")


def check_nodes_ready(state: ClusterState) -> Iterator[Finding]:
    states = {node.name: node_state(node, NOTHING_AWAY) for node in state.snapshot.nodes.values()}
    lost = sorted(name for name, each in states.items() if each in ("not ready", "unreachable"))
    if lost:
        text = f"{counted(len(lost), 'node')} not ready: {named(lost)}"
        yield Finding("warn", text, "kubectl describe node NAME", _TROUBLE)


def check_configuration(state: ClusterState) -> Iterator[Finding]:
    where, docs = f"ConfigMap {state.name}", "docs/reference/configuration.md"
    process = state.scheduler
    if state.refusal:
        text = f"version {state.client} refuses {state.refusal}"
        yield Finding("fail", text, "kubedsm config check FILE", docs)
    elif process and process.metrics.get("kubedsm_configuration_valid", 1.0) < 1:
        text = f"the scheduler refuses {_find_refusal(process.readiness, where)}"
        remedy = f"kubectl -n {state.name.namespace} get events"
        alert = "docs/how-to/respond-to-alerts.md#kubedsmconfigurationrefused"
        yield Finding("fail", text, remedy, alert)
    elif not state.configured:
        remedy = "kubectl apply -k manifests"
        yield Finding("warn", f"{where} has no configuration: defaults apply", remedy, docs)
    else:
        yield Finding("ok", f"{where} is valid{' and in force' if process else ''}")
    for line in state.deprecated:
        upgrade = "docs/how-to/upgrade.md#two-versions-at-once"
        yield Finding(
            "warn", f"{where}: {line}", "remove the key: the next version refuses it", upgrade
        )


def _find_refusal(readiness: str, where: str) -> str:
    found = re.search(r"refused: (.*)", readiness)
    return found[1] if found else f"{where}: the log has the reason"


def check_services_configured(state: ClusterState) -> Iterator[Finding]:
    snapshot = state.snapshot
    keys = list_unmatched(state.configuration.services, snapshot.census.shares)
    for key in keys[:TOLD]:
        remedy = "correct the key, or remove it"
        docs = f"{_TROUBLE}#a-configuration-change-has-no-effect"
        yield Finding("warn", why_unmatched(key, snapshot), remedy, docs)


def check_prometheus(state: ClusterState) -> Iterator[Finding]:
    settings = state.configuration.load_aware
    docs = "docs/how-to/use-measured-load.md"
    if not settings.prometheus or state.scheduler is None:
        return
    age = state.scheduler.metrics.get("kubedsm_load_age_seconds")
    if age is None or age > 3 * settings.period:
        text = "Prometheus gives no measured load"
        text += "" if age is None else f" since {age:.0f} s"
        remedy = f"kubedsm logs | grep prometheus; check {settings.prometheus} from the scheduler"
        yield Finding("warn", text, remedy, docs)
    else:
        nodes = state.scheduler.metrics.get("kubedsm_load_nodes", 0)
        yield Finding("ok", f"Prometheus gives the load of {counted(int(nodes), 'node')}")


def check_deployment(state: ClusterState) -> Iterator[Finding]:
    found, where = state.deployment, f"Deployment {state.name}"
    if found is None:
        if not state.is_led:
            yield Finding("fail", f"{where} is absent", "kubectl apply -k manifests", _INSTALL)
        return
    namespace = state.name.namespace
    if found.ready < found.replicas or not found.replicas:
        verdict: Verdict = "warn" if found.ready else "fail"
        text = f"{where}: {found.ready} of {counted(found.replicas, 'replica')} ready"
        remedy = f"kubectl -n {namespace} describe pods"
        yield Finding(verdict, text, remedy, f"{_TROUBLE}#no-replica-leads")
    else:
        yield Finding("ok", f"{where}: {counted(found.ready, 'replica')} ready")
    images = [image for image in found.images if "kubedsm" in image] or found.images
    image = images[0] if images else "none"
    tag = image.partition("@")[0].rpartition(":")[2]
    running = state.scheduler.version if state.scheduler else tag
    if state.client not in (tag, running):
        text = f"scheduler {running or tag} ({image}) and this command, {state.client}, differ"
        yield Finding("warn", text, "use the same version of both", "docs/how-to/upgrade.md")
    else:
        yield Finding("ok", f"image {image}, the version of this command")


def check_lease(state: ClusterState) -> Iterator[Finding]:
    where, docs = f"Lease {state.name}", f"{_TROUBLE}#no-replica-leads"
    remedy = f"kubectl -n {state.name.namespace} get pods; kubedsm logs"
    if state.is_led:
        age = state.lease_age
        renewed = "" if age is None else f", renewed {max(0.0, age):.0f} s ago"
        yield Finding("ok", f"{where} is held by {state.leader}{renewed}")
    elif state.term is None or not state.term.holder:
        yield Finding("fail", f"{where} has no holder: no replica leads", remedy, docs)
    else:
        age = state.lease_age or 0.0
        text = f"{where} is held by {state.term.holder}, but was not renewed for {age:.0f} s"
        yield Finding("fail", text, remedy, docs)


def check_scheduler(state: ClusterState) -> Iterator[Finding]:
    process, docs = state.scheduler, f"{_MONITOR}#check-health"
    if process is None:
        return  # `check_lease` reports a missing leader
    if not process.ready:
        why = " ".join(process.readiness.split())
        text = f"the scheduler at {process.where} is not ready: {why}"
        yield Finding("fail", text, "kubedsm logs", docs)
    else:
        yield Finding("ok", f"the scheduler at {process.where} is ready; metrics are reachable")
    if process.troubled:
        text = f"the watch of {', '.join(process.troubled)} fails: decisions use old objects"
        yield Finding("warn", text, "kubedsm logs", docs)
    if caught := process.metrics.get("kubedsm_caught_errors_total"):
        text = f"{counted(int(caught), 'internal error')} caught since the start"
        remedy = "kubedsm support-bundle, and report it"
        docs = "docs/how-to/respond-to-alerts.md#kubedsmerrorscaught"
        yield Finding("warn", text, remedy, docs)


def check_pause(state: ClusterState) -> Iterator[Finding]:
    if state.pause_reason:
        namespace, name = state.name.namespace, state.name.name
        remedy = f"kubectl -n {namespace} patch configmap {name} --type merge"
        remedy += """ -p '{"data":{"paused":"false"}}'"""
        docs = "docs/how-to/pause-and-approve.md#pause-migrations"
        yield Finding("warn", state.pause_reason, remedy, docs)


def _name_workloads(workloads: set[Workload]) -> str:
    return named([f"{w.kind.lower()}/{w}" for w in sorted(workloads)])


def check_opted_in(state: ClusterState) -> Iterator[Finding]:
    ours = state.snapshot.scheduler_name
    workloads = {pod.workload for pod in state.own_pods}
    if workloads:
        yield Finding("ok", f"{counted(len(workloads), 'workload')} opted in")
        return
    remedy = f"kubedsm opt-in NAMESPACE, or set spec.template.spec.schedulerName: {ours}"
    yield Finding("warn", "no workload is opted in", remedy, _ADOPT)


def check_namespaces(state: ClusterState) -> Iterator[Finding]:
    opted_in = counted(len(state.opted_in), "namespace")
    if state.opted_in and state.has_policy is False:
        text = f"{opted_in} opted in, but the admission policy is absent: {named(state.opted_in)}"
        remedy = "kubectl apply -k manifests/overlays/opt-in"
        yield Finding("fail", f"{text}; new pods keep their scheduler", remedy, _ADOPT)
    elif state.opted_in:
        yield Finding("ok", f"{opted_in} opted in by the admission policy")


def check_requests(state: ClusterState) -> Iterator[Finding]:
    without = {p.workload for p in state.own_pods if not (p.requests.cpu or p.requests.memory)}
    if without:
        text = f"{counted(len(without), 'workload')} without requests: {_name_workloads(without)};"
        text += " their pods fit everywhere and overload nodes"
        remedy = "set resources.requests of the containers"
        yield Finding("warn", text, remedy, "docs/how-to/plan-capacity.md")


def check_annotations(state: ClusterState) -> Iterator[Finding]:
    for pod in state.own_pods:
        for why in pod.wishes.ignored if pod.wishes else ():
            docs = "docs/reference/labels.md"
            yield Finding("warn", f"pod {pod}: {why}", "correct the annotation", docs)
            return


def check_budgets(state: ClusterState) -> Iterator[Finding]:
    for budget in state.budgets:
        if not budget.never_allows:
            continue
        covered = {pod.workload for pod in state.own_pods if budget.covers(pod)}
        if covered:
            text = f"PodDisruptionBudget {budget} blocks every migration of"
            text += f" {_name_workloads(covered)}: {budget.desired} of {budget.expected} pods must"
            text += " stay"
            remedy = "allow one disruption, or set services.KEY.mode: 'off'"
            docs = f"{_TROUBLE}#migrations-fail-or-never-begin"
            yield Finding("warn", text, remedy, docs)


def check_services(state: ClusterState) -> Iterator[Finding]:
    nodes, pods = state.snapshot.nodes, state.own_pods
    by_namespace = defaultdict[str, list[Pod]](list)
    for pod in pods:
        by_namespace[pod.namespace].append(pod)
    ignoring = []
    for service in state.services:
        covered = [pod for pod in by_namespace[service.namespace] if service.covers(pod)]
        if service.by_template and covered:
            text = f"Service {service} selects a template hash: its pods are not migrated"
            remedy = "remove pod-template-hash from its selector"
            docs = f"{_TROUBLE}#migrations-fail-or-never-begin"
            yield Finding("warn", text, remedy, docs)
        placed = (nodes.get(pod.node_name) for pod in covered if pod.node_name)
        tiers = {node.tier for node in placed if node is not None}
        if len(tiers & set(Tier)) == len(Tier) and not service.prefers_zone:
            ignoring.append(str(service))
    if ignoring:
        text = f"{counted(len(ignoring), 'Service')} of pods in both tiers ignore zones:"
        text += f" {named(sorted(ignoring))}; edge clients may be served by the cloud"
        remedy = "set spec.trafficDistribution: PreferClose (Kubernetes 1.31), unless an ingress"
        remedy += " or mesh routes by tier"
        yield Finding("warn", text, remedy, "docs/explanation/migration-effects.md")


def check_site_routing(state: ClusterState) -> Iterator[Finding]:
    policy = state.configuration.policy
    for service, workload in list_spreading(state.services, state.snapshot, policy):
        text = f"Service {service} sends requests to any site, and {workload} has demand by site"
        yield Finding("warn", text, routing_command(service), "docs/how-to/serve-near-users.md")


def check_waiting(state: ClusterState) -> Iterator[Finding]:
    ours, waiting = state.snapshot.scheduler_name, state.own_waiting
    names = [str(pod) for pod in waiting]
    if waiting and not state.is_led:
        verb = "waits" if len(waiting) == 1 else "wait"
        text = f"{counted(len(waiting), 'pod')} {verb} for a scheduler that does not run:"
        text += f" {named(names)}"
        stranded = find_stranded(state.snapshot.pods.values(), state.templates, ours)
        remedy = "; ".join(["start a replica, or release them", *stranded.list_remedies()])
        yield Finding("fail", text, remedy, f"{_ADOPT}#if-no-kubedsm-runs")
    elif waiting:
        unschedulable = [pod for pod in waiting if pod.message]
        if unschedulable:
            text = f"{counted(len(unschedulable), 'pod')} unschedulable: {unschedulable[0]}:"
            text += f" {unschedulable[0].message}"
            remedy = "kubedsm explain --all"
            yield Finding("warn", text, remedy, f"{_TROUBLE}#a-pod-stays-pending")
    else:
        yield Finding("ok", "no pod waits for this scheduler")
    others = {pod.scheduler: pod for pod in state.waiting if pod.scheduler != ours}
    for scheduler, pod in others.items():
        if difflib.get_close_matches(scheduler, [ours], n=1):
            text = f"pod {pod} waits for the scheduler {scheduler}, which is probably none"
            remedy = f"set schedulerName: {ours}"
            yield Finding("warn", text, remedy, f"{_INSTALL}#5-opt-in")


def check_detached(state: ClusterState) -> Iterator[Finding]:
    docs = f"{_TROUBLE}#migrations-fail-or-never-begin"
    forged = [str(pod) for pod in state.detached if not pod.target]
    if forged:
        text = f"{counted(len(forged), 'pod')} with a label kubedsm.io/migrating of no migration:"
        remedy = "kubectl label pod NAME kubedsm.io/migrating-"
        yield Finding("warn", f"{text} {named(forged)}", remedy, docs)
    limit = ORPHANED_AFTER * state.configuration.migration.deadline
    old = [str(p) for p in state.detached if p.target and state.now - p.since > limit]
    orphaned = old if state.is_led else [str(p) for p in state.detached if p.target]
    if orphaned:
        text = f"{counted(len(orphaned), 'orphaned migration')}: {named(orphaned)}"
        text += " left the ReplicaSet"
        remedy = "start a replica, which rolls them back" if not state.is_led else "kubedsm logs"
        yield Finding("warn", text, remedy, docs)
    elif not forged:
        running = sum(1 for pod in state.detached if pod.target)
        yield Finding("ok", f"{counted(running, 'migration')} in progress, none orphaned")


#: in the order of the report
CHECKS: Sequence[Check] = (
    Check("cluster", check_version, phase="both"),
    Check("cluster", check_clock, ("user",), phase="both"),
    Check("rights", check_install_rights, ("user", "rights"), phase="before"),
    Check("rights", check_rights, ("configuration", "rights")),
    Check("nodes", check_tiers, ("snapshot",), phase="both"),
    Check("nodes", check_sites, ("snapshot",), phase="both"),
    Check("nodes", check_nodes_ready, ("snapshot",), phase="both"),
    Check("configuration", check_configuration, ("configuration",)),
    Check("configuration", check_services_configured, ("configuration", "snapshot")),
    Check("configuration", check_prometheus, ("configuration",)),
    Check("scheduler", check_deployment, ("deployment",)),
    Check("scheduler", check_lease, ("lease",)),
    Check("scheduler", check_leader_clock, ("lease",)),
    Check("scheduler", check_scheduler, ("scheduler",)),
    Check("scheduler", check_pause),
    Check("workloads", check_opted_in, ("snapshot",)),
    Check("workloads", check_namespaces, ("adoption",)),
    Check("workloads", check_requests, ("snapshot",), phase="both"),
    Check("workloads", check_annotations, ("snapshot",)),
    Check("workloads", check_budgets, ("snapshot", "budgets"), phase="both"),
    Check("workloads", check_services, ("snapshot", "services"), phase="both"),
    Check("workloads", check_site_routing, ("configuration", "snapshot", "services")),
    Check("workloads", check_waiting, ("lease", "waiting", "snapshot", "templates")),
    Check("migrations", check_detached, ("lease", "detached")),
)
