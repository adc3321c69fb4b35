"""Measured load from Prometheus vectors: usage of nodes and pods, and response times.

Invalid and stale samples, and objects with two series, are ignored. Series of nodes and pods
outside the cluster are skipped: the server may measure other clusters, too.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Self, TypeVar

import attrs

from kubedsm.app.prometheus import Sample, Vector
from kubedsm.config.settings import Configuration
from kubedsm.model.measured import Answers, Measured, Usage
from kubedsm.model.model import NodeName, Pod, Tier, Uid, Workload
from kubedsm.model.node_index import site_of
from kubedsm.model.snapshot import Snapshot

K = TypeVar("K")

#: greatest plausible sample: sums remain finite; and of latencies
_MOST, _MOST_SECONDS = 1e18, 10.0
_TIERS = {tier.value: tier for tier in Tier}

#: resources measured for nodes and pods
KINDS = ("cpu", "memory", "net", "disk")
#: query names
SECONDS, REQUESTS = "answers_seconds", "answers_requests"
DEMAND, LATENCY = "demand_requests", "site_latency"
#: may be empty: no requests have been answered yet
OPTIONAL = (SECONDS, REQUESTS, DEMAND, LATENCY)
QUERIES = (*(f"{of}_{kind}" for of in ("node", "pod") for kind in KINDS), *OPTIONAL)


def queries_of(configuration: Configuration) -> dict[str, str]:
    """Return the non-empty PromQL queries of the configuration, by name."""
    load, answers = configuration.load_aware, configuration.latency.queries
    of_nodes, of_pods = (attrs.asdict(q) for q in (load.queries.node, load.queries.pod))
    given = (
        *of_nodes.values(),
        *of_pods.values(),
        answers.seconds,
        answers.requests,
        configuration.site.demand_query,
        configuration.site.latency,
    )
    asked = dict(zip(QUERIES, given, strict=True))
    return {name: load.fill_window(query) for name, query in asked.items() if query}


def select_usable(name: str, vector: Vector, now: float, oldest: float) -> tuple[Vector, str]:
    """Return the valid current samples of a query's Prometheus vector, and why others were
    rejected.

    oldest: maximal age of a sample in seconds.
    """
    wrong: Counter[str] = Counter()
    good = []
    for sample in vector:
        why = _why_unusable(sample, now, oldest)
        if not why and name == LATENCY and sample.value > _MOST_SECONDS:
            why = f"above {_MOST_SECONDS:g}: latencies are in seconds"
        if why:
            wrong[why] += 1
        else:
            good.append(sample)
    return tuple(good), ", ".join(f"{count} {why}" for why, count in wrong.most_common())


def _why_unusable(sample: Sample, now: float, oldest: float) -> str:
    if not math.isfinite(sample.value):
        return "not finite"
    if not 0 <= sample.value <= _MOST:
        return "negative" if sample.value < 0 else "too large"
    # Clock skew makes samples as useless as staleness.
    return "" if abs(now - sample.at) <= oldest else f"not within {oldest:g} s of now"


#: labels with namespace and name of the requested workload or Service, by precedence
_REQUESTED = (
    ("namespace", "workload"),
    ("dst_namespace", "dst_deployment"),
    ("exported_namespace", "exported_service"),
    ("namespace", "service"),
)
#: labels with the ends of a round trip: sites, or nodes
_ENDS = ("source", "destination")
#: labels with namespace and name of the pod at which requests enter
_ENTRANCES = (("controller_namespace", "controller_pod"), ("namespace", "pod"))


@attrs.frozen
class _Named:
    """Index of nodes, pods and workloads by the labels of Prometheus series."""

    snapshot: Snapshot
    node_label: Sequence[str]
    #: by names and by addresses
    nodes: Mapping[str, NodeName]
    #: by namespace and name, as the next
    pods: Mapping[tuple[str, str], Pod]
    workloads: Mapping[tuple[str, str], Workload]
    site_labels: Sequence[str] = ()

    @classmethod
    def of(
        cls, snapshot: Snapshot, node_label: Sequence[str], site_labels: Sequence[str] = ()
    ) -> Self:
        nodes = {a: node.name for node in snapshot.nodes.values() for a in node.addresses}
        nodes |= {name: name for name in snapshot.nodes}
        pods = {(pod.namespace, pod.name): pod for pod in snapshot.pods.values()}
        # Of two workloads of one name, the first kind of these: Deployment, Job, StatefulSet.
        workloads = sorted({pod.workload for pod in pods.values()}, reverse=True)
        names = {(workload.namespace, workload.name): workload for workload in workloads}
        return cls(snapshot, node_label, nodes, pods, names, site_labels)

    def find_node(self, labels: Mapping[str, str]) -> NodeName | None:
        said = next((labels[label] for label in self.node_label if label in labels), "")
        return self.nodes.get(said) or self.nodes.get(said.rpartition(":")[0].strip("[]"))

    def find_pod(self, labels: Mapping[str, str]) -> Pod | None:
        return self.pods.get((labels.get("namespace", ""), labels.get("pod", "")))

    def find_uid(self, labels: Mapping[str, str]) -> Uid | None:
        pod = self.find_pod(labels)
        return None if pod is None else pod.uid

    def find_answering(self, labels: Mapping[str, str]) -> "_Answering | None":
        if "pod" in labels:
            pod = self.find_pod(labels)
            return None if pod is None else self._pod_answering(pod)
        workload = self.workloads.get((labels.get("namespace", ""), labels.get("workload", "")))
        tier = _TIERS.get(labels.get("tier", ""))
        return (workload, tier, "") if workload and tier else None

    def find_demand(self, labels: Mapping[str, str]) -> tuple[Workload, str] | None:
        """Return the workload that a series of requests is for, and the site where they enter."""
        workload, site = self._find_requested(labels), labels.get("site") or self._find_site(labels)
        return (workload, site) if workload and site else None

    def find_pair(self, labels: Mapping[str, str]) -> tuple[str, str] | None:
        """Return the site of the users and the serving site, empty for the cloud, that a series of
        latencies is about.
        """
        source, target = (self._find_place(labels.get(end, "")) for end in _ENDS)
        return (source, target) if source and target is not None else None

    def _find_place(self, name: str) -> str | None:
        """Return the site of that name, or of the node of that name; empty: the cloud."""
        node = self.snapshot.nodes.get(self.nodes.get(name, NodeName("")))
        if node is not None and node.tier is Tier.EDGE:
            return site_of(node, self.site_labels) or None
        if name in self._sites:
            return name
        in_cloud = name == Tier.CLOUD.value if node is None else node.tier is Tier.CLOUD
        return "" if in_cloud else None

    @cached_property
    def _sites(self) -> frozenset[str]:
        edge = self.snapshot.of_tier(Tier.EDGE)
        return frozenset(site_of(node, self.site_labels) for node in edge) - {""}

    def _find_requested(self, labels: Mapping[str, str]) -> Workload | None:
        """Return the workload named by the series, or with the name of the requested Service."""
        service, at, _ = (labels.get("exported_service") or labels.get("service", "")).partition(
            "@"
        )
        if at:
            # A Service as Traefik names it, with namespace, name and port.
            return self._joined.get(service.rpartition("-")[0])
        for namespace, name in _REQUESTED:
            if labels.get(namespace) and labels.get(name):
                return self.workloads.get((labels[namespace], labels[name]))
        return None

    @cached_property
    def _joined(self) -> Mapping[str, Workload]:
        """Return the workloads by namespace and name in one, unless two have the same."""
        counts = Counter(map("-".join, self.workloads))
        found = {"-".join(names): workload for names, workload in self.workloads.items()}
        return {name: workload for name, workload in found.items() if counts[name] == 1}

    def _find_site(self, labels: Mapping[str, str]) -> str:
        """Return the site of the node, or of the node of the pod, at which requests enter."""
        node = self.nodes.get(labels.get("node", ""))
        for namespace, pod in _ENTRANCES:
            entrance = self.pods.get((labels.get(namespace, ""), labels.get(pod, "")))
            if node is None and entrance is not None:
                node = self.snapshot.placed.get(entrance.uid)
        found = self.snapshot.nodes.get(node or NodeName(""))
        return site_of(found, self.site_labels) if found else ""

    def _pod_answering(self, pod: Pod) -> "_Answering | None":
        node = self.snapshot.nodes.get(self.snapshot.placed.get(pod.uid, NodeName("")))
        return (pod.workload, node.tier, pod.uid) if node and node.tier else None


#: workload, tier, and pod; an empty pod means all pods
_Answering = tuple[Workload, Tier, str]


@attrs.frozen
class Reading:
    measured: Measured
    #: by query, how many nodes, pods or workloads it says something of, and how many have several
    #: series
    used: Mapping[str, int]
    doubled: Mapping[str, int]


def read_load(
    vectors: Mapping[str, Vector],
    snapshot: Snapshot,
    node_label: Sequence[str],
    at: float,
    site_labels: Sequence[str] = (),
) -> Reading:
    """Combine usable vectors by query into a measurement at `at`, in seconds since the epoch."""
    named = _Named.of(snapshot, node_label, site_labels)
    used, doubled = Counter[str](), Counter[str]()

    def values_of(query: str, about: Callable[[Mapping[str, str]], K | None]) -> dict[K, float]:
        """Return a query's values by node, pod or workload, without objects that have several
        series.
        """
        found: dict[K, float] = {}
        twice = set()
        for sample in vectors.get(query, ()):
            key = about(sample.labels)
            if key in found:
                twice.add(key)
            elif key is not None:
                found[key] = sample.value
        single = {key: value for key, value in found.items() if key not in twice}
        used[query], doubled[query] = len(single), len(twice)
        return single

    nodes = [values_of(f"node_{kind}", named.find_node) for kind in KINDS]
    pods = [values_of(f"pod_{kind}", named.find_uid) for kind in KINDS]
    answers = _mean_answers(
        values_of(SECONDS, named.find_answering), values_of(REQUESTS, named.find_answering)
    )
    # Of a workload without requests, the former demand is kept.
    present = named.workloads.values() if DEMAND in vectors else ()
    demand: dict[Workload, dict[str, float]] = {workload: {} for workload in present}
    for sample in vectors.get(DEMAND, ()):
        found = named.find_demand(sample.labels)
        if found is not None:
            workload, site = found
            by_site = demand[workload]
            by_site[site] = by_site.get(site, 0.0) + sample.value
            used[DEMAND] += 1
    times: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for sample in vectors.get(LATENCY, ()):
        pair = named.find_pair(sample.labels)
        if pair is not None:
            times[pair].append(sample.value)
    used[LATENCY] = len(times)
    latency = {pair: math.fsum(each) / len(each) for pair, each in times.items()}
    usage = {name: Usage(*(of.get(name) for of in nodes)) for name in set().union(*nodes)}
    of_pods = _mean_usage(pods, snapshot)
    measured = Measured(at, usage, of_pods, answers, demand=demand, latency=latency)
    return Reading(measured, used, doubled)


def _mean_usage(by_pod: Sequence[Mapping[Uid, float]], snapshot: Snapshot) -> dict[Workload, Usage]:
    """Return the mean usage per pod of each workload."""
    means: dict[Workload, list[float | None]] = {}
    for index, values in enumerate(by_pod):
        of: defaultdict[Workload, list[float]] = defaultdict(list)
        for uid, value in values.items():
            of[snapshot.pods[uid].workload].append(value)
        for workload, each in of.items():
            means.setdefault(workload, [None] * len(by_pod))[index] = math.fsum(each) / len(each)
    return {workload: Usage(*usage) for workload, usage in means.items()}


def _mean_answers(
    seconds: Mapping[_Answering, float], requests: Mapping[_Answering, float]
) -> dict[Workload, dict[Tier, Answers]]:
    """Return request rate and mean response time by workload and tier, if Prometheus has both."""
    spent: defaultdict[tuple[Workload, Tier], float] = defaultdict(float)
    answered: defaultdict[tuple[Workload, Tier], float] = defaultdict(float)
    for key in sorted(seconds.keys() & requests.keys()):
        spent[key[:2]] += seconds[key]
        answered[key[:2]] += requests[key]
    answers: defaultdict[Workload, dict[Tier, Answers]] = defaultdict(dict)
    for (workload, tier), rate in answered.items():
        mean = spent[workload, tier] / rate if rate else math.inf
        if math.isfinite(mean):
            answers[workload][tier] = Answers(rate, mean)
    return dict(answers)
