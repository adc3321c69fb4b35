"""Explanation of a workload: edge share, QoS target, and why pods are not at the edge."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import attrs

from kubedsm.config.services import ENDING, Service, entries_for
from kubedsm.config.settings import Configuration
from kubedsm.explain.explainer import Explainer
from kubedsm.explain.explanation import Explanation, Section, Words, link, percent, table
from kubedsm.explain.facts import (
    QosTargetFacts,
    ResilienceFacts,
    SiteFacts,
    TierTimes,
    WorkloadFacts,
)
from kubedsm.explain.verdicts import count_rejections
from kubedsm.model.model import (
    DEMAND_ANNOTATION,
    QOS_ANNOTATION,
    NodeName,
    Pod,
    Share,
    Tier,
    Workload,
)
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import QosTarget, count_target_pods
from kubedsm.objective.qos_targets import newest_pods
from kubedsm.objective.site_shares import SiteShare, list_sites, list_worst_losses
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.planner.plurals import counted, sentence
from kubedsm.planner.rebalancing_requests import reason_to_stay
from kubedsm.planner.what_if import WhatIfResponse

#: pods shown
_SHOWN = 20


def qos_target(workload: Workload, snapshot: Snapshot, policy: KubeDSM) -> QosTargetFacts:
    """Return the QoS target of one workload, with the underlying response times."""
    target, goal = policy.qos_targets_in(snapshot)(workload), policy.latency
    answers = snapshot.measured.answers.get(workload, {})
    measured = TierTimes(*(answers[tier].seconds if tier in answers else None for tier in Tier))
    latency = None if goal is None else goal.targets(workload)
    taken = TierTimes()
    if goal is not None and latency is not None:
        times = goal.times(workload, snapshot.measured)
        taken = TierTimes(times.edge, times.cloud)
    return QosTargetFacts(str(workload), target.qos, target.weight, measured, latency, taken)


def qos_targets(snapshot: Snapshot, policy: KubeDSM) -> list[QosTargetFacts]:
    """Return the QoS target of every workload that uses this scheduler."""
    return [qos_target(workload, snapshot, policy) for workload in snapshot.census.shares]


def _describe_sites(sites: Sequence[SiteShare], near: float, target: QosTarget) -> Iterator[Words]:
    """Yield the near share against the target, and why a site has more replicas than it should."""
    yield (f"{percent(near)} of its requests are served near users; target {percent(target.qos)}.",)
    short = [each for each in sites if each.replicas < each.wanted]
    spare = [each for each in sites if each.replicas > each.wanted]
    if short and spare:
        names = " and ".join(each.site or "edge nodes without a site" for each in spare[:2])
        yield (f"{short[0].site} lacks {short[0].wanted - short[0].replicas}; {names} serve it.",)


def _section_sites(sites: Sequence[SiteShare]) -> Iterator[Section]:
    rows = (
        (each.site or "(no site)", percent(each.part), str(each.wanted), str(each.replicas))
        for each in sites
    )
    if sites:
        found = table(("site", "its share of the requests", "target", "pods"), rows)
        yield Section("Replicas by site", table=found)


@attrs.frozen(slots=True)
class WorkloadExplainer:
    """Explainer of one workload, with all information as immutable values for any thread."""

    snapshot: Snapshot
    configuration: Configuration
    workload: Workload
    #: currently suggested migrations, if known
    suggested: WhatIfResponse | None = None
    #: reason why its migrations may not begin now
    deferral: str = ""

    def explain(self) -> Explanation[WorkloadFacts]:
        workload = self.workload
        snapshot, targets = self.configuration.policy.resolve(self.snapshot)
        share, target = snapshot.census.shares.get(workload, Share()), targets(workload)
        sites = list_sites(share, target)
        wanted = count_target_pods(target.qos, share.total)
        missing = max(0, wanted - share.edge)
        surplus = target.count_surplus(share)
        met = f"{counted(missing, 'pod')} missing" if missing else "the QoS target is met"
        if surplus and workload.kind not in ENDING:
            stays = "stays until others need the capacity"
            met += f", and the surplus of {counted(surplus, 'pod')} {stays}"
        has = f"{workload} has {share.edge} of its {counted(share.total, 'pod')} at the edge"
        lines: list[Words] = [
            (f"{has} and targets {wanted} ({percent(target.qos)}): {met}.",),
            (self._describe_source(target.qos),),
        ]
        if self.deferral:
            lines.append((sentence(self.deferral),))
        if target.most is not None and target.most < wanted:
            most = f"No more than {counted(target.most, 'pod')} may be at the edge"
            lines.append((f"{most}: its response time is longer there.",))
        near = None
        if target.demand is not None and target.has_users and share.sites is not None:
            near = target.demand.near(share.sites, share.total)
            lines += [(self._describe_demand_source(),), *_describe_sites(sites, near, target)]
            if self.snapshot.measured.latency:
                lines.append(("Latencies between sites are measured by Prometheus: site.latency.",))
        losses = list_worst_losses(snapshot.census.shares, targets, (workload,))
        lines += [(sentence(str(loss)),) for loss in losses]
        facts = WorkloadFacts(
            workload=str(workload),
            kind=workload.kind,
            edge=share.edge,
            total=share.total,
            wanted=wanted,
            missing=missing,
            target=qos_target(workload, snapshot, self.configuration.policy),
            sites=tuple(SiteFacts(s.site, s.part, s.wanted, s.replicas) for s in sites),
            near=near,
            resilience=ResilienceFacts.of(losses[0]) if losses else None,
            deferred=self.deferral,
        )
        title = f"Why {workload} has {share.edge} at the edge"
        sections = (*_section_sites(sites), *self._list_sections(missing))
        return Explanation(title, tuple(lines), sections, facts)

    def _describe_source(self, qos: float) -> str:
        """Describe the annotation or `services` entry that sets the QoS target, or the default."""
        newest, entries = self._newest_pod, self._find_entries()
        if newest is not None and newest.wishes is not None and newest.wishes.qos is not None:
            capped = f", at most {percent(qos)}" if qos < newest.wishes.qos else ""
            return f"Its QoS target is set by annotation {QOS_ANNOTATION} of {newest}{capped}."
        for field, key in (("qos", "qos"), ("latency_target", "latencyTarget")):
            if field in entries:
                entry, found = entries[field]
                if found is ENDING.get(entry):
                    kind = f"A {entry} targets no pods at the edge unless services says so"
                    return f"{kind}: {self.workload} or {entry} is the key."
                return f"Its QoS target is set by the entry {entry} of services: {key}."
        return "No QoS target is configured for it, so its target is the default, 100%."

    def _describe_demand_source(self) -> str:
        """Describe where the demand by site comes from, by the precedence of `find_demand`."""
        entries = self._find_entries()
        if "demand" in entries:
            return f"Its demand by site is set by the entry {entries['demand'][0]} of services."
        if self.workload in self.snapshot.measured.demand:
            return "Its demand by site is measured by Prometheus: site.demand."
        return f"Its demand by site is declared by its pods: annotation {DEMAND_ANNOTATION}."

    @property
    def _newest_pod(self) -> Pod | None:
        """The workload's newest pod: its annotations and labels count."""
        return newest_pods(self.snapshot, (self.workload,)).get(self.workload)

    def _find_entries(self) -> Mapping[str, tuple[str, Service]]:
        """Return the `services` entry that sets each field of the workload, with its value."""
        labels = {} if self._newest_pod is None else self._newest_pod.labels
        return entries_for(self.configuration.services, self.workload, labels)

    def _list_sections(self, missing: int) -> Iterator[Section]:
        snapshot = self.snapshot
        pods = [
            pod
            for pod in snapshot.pods.values()
            if pod.workload == self.workload and pod.counts_for_qos
        ]
        elsewhere = [p for p in pods if self._find_tier(snapshot.placed.get(p.uid)) != Tier.EDGE]
        if missing and elsewhere:
            headings = ("pod", "where", "why it is not at the edge")
            rows = self._kept_off(elsewhere[:_SHOWN])
            more = len(elsewhere) - _SHOWN
            lines: tuple[Words, ...] = ((f"And {more} more.",),) if more > 0 else ()
            yield Section("Pods kept off the edge", lines, table(headings, rows))
        counts = Counter(snapshot.placed.get(pod.uid) for pod in pods)
        where = (
            (link("node", name) if name else "waiting", self._find_tier(name), str(number))
            for name, number in sorted(counts.items(), key=lambda item: str(item[0] or ""))
        )
        yield Section("Nodes of its pods", table=table(("node", "tier", "pods"), where))

    def _kept_off(self, pods: Sequence[Pod]) -> Iterator[tuple[Words, ...]]:
        left, targets = {}, {}
        if self.suggested is not None:
            left = {each.pod: each.message for each in self.suggested.left}
            targets = {each.pod: each.target for each in self.suggested.moves}
        explainer = Explainer(self.snapshot, self.configuration.policy)
        # Pods of a class share the reason: a suggestion names one of them.
        alike = {
            (pod.pod_class, pod.uid not in self.snapshot.placed): left[str(pod)]
            for pod in self.snapshot.pods.values()
            if pod.workload == self.workload and str(pod) in left
        }
        for pod in pods:
            name = self.snapshot.placed.get(pod.uid)
            where: Words = (link("node", name),) if name else ("waiting",)
            if str(pod) in targets:
                target = link("node", targets[str(pod)])
                why: Words = ("it would be migrated to ", target, self._describe_start())
            else:
                group = pod.pod_class, name is None
                if group not in alike:
                    alike[group] = self._describe_rejection(explainer, pod)
                why = (alike[group],)
            yield (link("pod", pod),), where, why

    def _describe_start(self) -> str:
        """Return when a suggested migration begins, or the reason why it does not."""
        if self.deferral:
            return f", but {self.deferral}"
        mode = self.configuration.suggester.mode
        return " now" if mode == "apply" else f", but suggester.mode is {mode}"

    def _describe_rejection(self, explainer: Explainer, pod: Pod) -> str:
        edge = {node.name for node in self.snapshot.of_tier(Tier.EDGE)}
        rejections = explainer.rejections(pod.uid, plain=False)
        rules = [rejected.rule for name, rejected in rejections.items() if name in edge]
        if not edge:
            return "there is no edge node"
        if len(rules) < len(edge):
            return f"an edge node would accept it{self._describe_stay(pod)}"
        return f"no edge node is feasible: {count_rejections(rules)}"

    def _describe_stay(self, pod: Pod) -> str:
        """Return a clause with the reason why a pod is not migrated; empty for a pending pod, or
        if unknown.
        """
        if pod.uid not in self.snapshot.placed:
            return ""
        stays = reason_to_stay(pod, self.configuration, self.snapshot.surroundings)
        unknown = "" if self.suggested is None else "no migration of it is suggested now"
        why = stays or self.deferral or unknown
        return f", but {why}" if why else ""

    def _find_tier(self, name: NodeName | None) -> str:
        node = self.snapshot.nodes.get(name) if name else None
        return node.tier or "" if node else ""
