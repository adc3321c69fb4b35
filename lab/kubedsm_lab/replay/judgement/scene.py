"""Form of a scene, and its course under one contender in virtual time."""

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import msgspec

from kubedsm.config.settings import Configuration
from kubedsm.model.model import Share, Workload
from kubedsm.objective.objective import QosTarget
from kubedsm_lab.emulator.actors.kubelet import NEVER_READY
from kubedsm_lab.emulator.api.object_state import annotations_of, labels_of, node_of
from kubedsm_lab.emulator.api.patching import MERGE_PATCH
from kubedsm_lab.emulator.api.resources import (
    CRON_JOBS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    Object,
    Resource,
)
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster, Timing
from kubedsm_lab.emulator.paper import NAMESPACE, node, service_objects
from kubedsm_lab.replay.measures import edge_shares, lost_pod_seconds
from kubedsm_lab.replay.recording import TimelineRecorder
from kubedsm_lab.replay.timeline import Level, Timeline
from kubedsm_lab.replay.variants import contender, with_settings
from kubedsm_lab.replay.virtual_time import VirtualClock, run_in_virtual_time
from kubedsm_lab.replay.world import find_policy, scheduled, seed_rng, without_solver

#: change that a user, a node or a controller makes
Act = Callable[[EmulatedCluster], object]
CLOUD = node("c1", "cloud", "200", "400Gi", pods=500)
_DIGITS = 6


@attrs.frozen
class Expectation:
    """One expectation of an operator: text, and predicate over the course of a scene."""

    text: str
    is_met: "Callable[[Course], bool]"


@attrs.frozen(kw_only=True)
class Scene:
    """Cluster, acts by time, and what an experienced operator expects of the course.

    A workload is known by the label `app` of its pods. Only `services` count for the edge share.
    """

    #: course and expectation, in one or two sentences
    story: str
    services: tuple[str, ...]
    expected: tuple[Expectation, ...]
    #: seconds from the beginning, and the act
    acts: Sequence[tuple[float, Act]]
    #: seconds from the beginning to the end
    duration: float
    nodes: tuple[Object, ...]
    #: other workloads, such as Jobs
    others: tuple[str, ...] = ()
    #: YAML values by dotted key
    settings: Mapping[str, str] = attrs.field(factory=dict)
    timing: Timing = attrs.field(factory=Timing)
    #: whether plans beyond the limits of a suggestion are searched, by the configured solver
    solver: bool = False


@attrs.frozen(slots=False)
class Course:
    """Recorded course of a scene, over which expectations are judged."""

    timeline: Timeline
    services: tuple[str, ...]
    targets: Mapping[str, QosTarget]
    events: Sequence[Object] = ()

    def levels(self, since: float = 0.0, until: float | None = None) -> list[Level]:
        """Return the intervals without changes of Ready pods between two times in seconds."""
        end = self.timeline.end if until is None else until
        return [
            attrs.evolve(level, until=min(end, level.until))
            for level in self.timeline.levels(since)
            if level.since < end
        ]

    def share(self, service: str, since: float = 0.0, until: float | None = None) -> float:
        """Return the mean edge share of a workload in an interval; -1 without Ready pods."""
        share = edge_shares([service], self.levels(since, until))[service]
        return -1.0 if share is None else share

    def attainment(self) -> float:
        """Return the weighted mean over the services of their edge shares, each relative to its
        target and at most 1; services that target nothing are left out.
        """
        shares = edge_shares(self.services, self.levels())
        total = weights = 0.0
        for name in self.services:
            target = self.targets[name]
            if target.qos and target.weight:
                total += target.weight * min(1.0, (shares[name] or 0.0) / target.qos)
                weights += target.weight
        return total / weights if weights else 1.0

    def target_pod_seconds(self) -> float:
        """Return the pod-seconds at the edge towards the targets, each times its weight."""
        return sum(
            level.seconds * self._count_towards(name, share)
            for level in self.levels()
            for name, share in level.shares.items()
            if name in self.services
        )

    def _count_towards(self, service: str, share: Share) -> float:
        target = self.targets[service]
        return target.weight * min(share.edge, target.count_wanted(share.total))

    def count_migrations(self, service: str | None = None, since: float = -1e9) -> int:
        return sum(
            service in (None, move.service) and move.began >= since for move in self.timeline.moves
        )

    def longest_wait(self, service: str) -> float:
        """Return the longest time from the creation of a pod to its bind, in seconds."""
        lives = [life for life in self.timeline.lives if life.service == service]
        ends = (self.timeline.end if life.bound is None else life.bound for life in lives)
        return max((end - life.created for end, life in zip(ends, lives, strict=True)), default=0.0)

    def count_pods(self, service: str) -> Counter[str]:
        """Return the number of pods of the service on each node at the end."""
        lives = self.timeline.lives
        return Counter(
            str(life.node) for life in lives if life.service == service and life.gone is None
        )


# Expectations.


def edge_share(
    service: str,
    *,
    at_least: float = 0.0,
    at_most: float = 1.0,
    since: float = 0.0,
    until: float | None = None,
) -> Expectation:
    """Expect the mean edge share of a service in an interval, in seconds."""
    bounds = [f"at least {at_least:g}"] * (at_least > 0) + [f"at most {at_most:g}"] * (at_most < 1)
    when = f" from {since:g} s on" if until is None else f" from {since:g} to {until:g} s"
    return Expectation(
        f"edge share of {service} {' and '.join(bounds)}{when if since or until else ''}",
        lambda course: at_least - 1e-9 <= course.share(service, since, until) <= at_most + 1e-9,
    )


def each_edge_share(
    services: Sequence[str], *, at_least: float, at_most: float = 1.0, since: float
) -> Expectation:
    """Expect the mean edge share of each of the services from a time on, in seconds."""
    each = [edge_share(s, at_least=at_least, at_most=at_most, since=since) for s in services]
    named = f"each of {services[0]} to {services[-1]}"
    return Expectation(
        each[0].text.replace(f"of {services[0]}", f"of {named}", 1),
        lambda course: all(one.is_met(course) for one in each),
    )


def migrations(at_most: int, service: str | None = None, since: float | None = None) -> Expectation:
    """Expect a limited number of migrations, of one workload or of all."""
    number = f"at most {at_most} migrations" if at_most else "no migration"
    return Expectation(
        number
        + (f" of {service}" if service else "")
        + ("" if since is None else f" from {since:g} s on"),
        lambda course: (
            course.count_migrations(service, -1e9 if since is None else since) <= at_most
        ),
    )


def nothing_lost() -> Expectation:
    return Expectation(
        "no pod-second lost to migrations", lambda course: not lost_pod_seconds(course.timeline)
    )


def spread_over(service: str, *, at_most: int) -> Expectation:
    """Expect a limit of the pods of a service on each node at the end."""
    return Expectation(
        f"at most {at_most} pods of {service} on a node",
        lambda course: max(course.count_pods(service).values(), default=0) <= at_most,
    )


def pending(service: str, *, at_most: float) -> Expectation:
    """Expect a limit of the time that each pod of a service waits for a node, in seconds."""
    return Expectation(
        f"each pod of {service} has a node after {at_most:g} s",
        lambda course: course.longest_wait(service) <= at_most,
    )


def gathered(service: str, nodes: Sequence[str], *, at_least: int) -> Expectation:
    """Expect a least number of pods of a service on some nodes at the end."""
    return Expectation(
        f"at least {at_least} pods of {service} on {' and '.join(nodes)}",
        lambda course: sum(course.count_pods(service)[name] for name in nodes) >= at_least,
    )


def reported(reason: str, about: str, *, at_most: int) -> Expectation:
    """Expect between one and `at_most` Events with a reason about an object."""

    def is_met(course: Course) -> bool:
        events = ((event["reason"], event["involvedObject"]["name"]) for event in course.events)
        return 1 <= sum(event == (reason, about) for event in events) <= at_most

    return Expectation(f"at most {at_most} Event {reason} about {about}, and one at least", is_met)


def replacements(service: str, at_most: int) -> Expectation:
    """Expect a limited number of pods created beyond the first of each replica."""
    return Expectation(
        f"at most {at_most} pods of {service} created for migrations",
        lambda course: (
            sum(life.service == service for life in course.timeline.lives)
            <= course.timeline.wanted(service, 1e9) + at_most
        ),
    )


# Acts.


def deploy(name: str, replicas: int, cpu: str = "1", **pod_spec: Any) -> Act:
    """Create a Deployment for the scheduler; `pod_spec` has more fields of its pods' spec."""

    def act(cluster: EmulatedCluster) -> object:
        deployment, *_ = service_objects(name, cpu, "100Mi")
        deployment["spec"]["replicas"] = replicas
        deployment["spec"]["template"]["spec"] |= pod_spec
        return cluster.api.create(DEPLOYMENTS, deployment, namespace=NAMESPACE)

    return act


def run_job(name: str, pods: int, seconds: float) -> Act:
    """Create a Job whose pods run at once, each for some seconds."""
    job = {"metadata": {"name": name}, "spec": _job_spec(name, pods, seconds)}
    return lambda cluster: cluster.api.create(JOBS, job, namespace=NAMESPACE)


def run_every_minute(name: str, pods: int, seconds: float) -> Act:
    """Create a CronJob that runs such a Job every minute."""
    template = {"spec": _job_spec(name, pods, seconds)}
    spec = {"schedule": "* * * * *", "jobTemplate": template}
    cron_job = {"metadata": {"name": name}, "spec": spec}
    return lambda cluster: cluster.api.create(CRON_JOBS, cron_job, namespace=NAMESPACE)


def _job_spec(name: str, pods: int, seconds: float) -> Object:
    container = {
        "name": "task",
        "image": "busybox",
        "command": ["sleep", f"{seconds:g}"],
        "resources": {"requests": {"cpu": "1", "memory": "100Mi"}},
    }
    spec = {"schedulerName": "kubedsm", "restartPolicy": "Never", "containers": [container]}
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    return {"parallelism": pods, "completions": pods, "template": template}


def start_slowly(seconds: float) -> Object:
    """Return a pod spec whose pods become Ready after some seconds, by their readiness probe."""
    container = service_objects("web", "1", "100Mi")[0]["spec"]["template"]["spec"]["containers"][0]
    probe = {"initialDelaySeconds": round(seconds), "tcpSocket": {"port": 8080}}
    return {"containers": [{**container, "readinessProbe": probe}]}


def prefer_zone(zone: str) -> Object:
    """Return the affinity of pods that prefer the nodes of a zone."""
    key = "topology.kubernetes.io/zone"
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [zone]}]}
    preferred = [{"weight": 1, "preference": term}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def spoil_pods(service: str, node: str) -> Act:
    """Let pods of a service never become Ready on a node from now on."""

    def act(cluster: EmulatedCluster) -> None:
        def spoil(change: ObjectChange) -> None:
            pod = change.object
            if (
                change.resource is PODS
                and change.type == "MODIFIED"
                and labels_of(pod).get("app") == service
                and node_of(pod) == node
                and NEVER_READY not in annotations_of(pod)
            ):
                name = pod["metadata"]["name"]
                patch = {"metadata": {"annotations": {NEVER_READY: "true"}}}
                cluster.api.patch(PODS, NAMESPACE, name, patch, MERGE_PATCH)

        cluster.api.store.subscribe(spoil)

    return act


def scale(name: str, replicas: int) -> Act:
    return _patch(DEPLOYMENTS, name, {"spec": {"replicas": replicas}})


def roll_out(name: str, version: str) -> Act:
    template = {"metadata": {"annotations": {"version": version}}}
    return _patch(DEPLOYMENTS, name, {"spec": {"template": template}})


def create_budget(name: str, max_unavailable: int) -> Act:
    """Create the PodDisruptionBudget of a service."""
    selector = {"matchLabels": {"app": name}}
    spec = {"maxUnavailable": max_unavailable, "selector": selector}
    budget = {"metadata": {"name": name}, "spec": spec}
    return lambda cluster: cluster.api.create(POD_DISRUPTION_BUDGETS, budget, namespace=NAMESPACE)


def remove_node(name: str) -> Act:
    return lambda cluster: cluster.api.delete(NODES, "", name)


def add_node(added: Object) -> Act:
    return lambda cluster: cluster.api.create(NODES, added)


def cordon(name: str, *, cordoned: bool = True) -> Act:
    return _patch(NODES, name, {"spec": {"unschedulable": cordoned}}, "")


def drain(name: str) -> Act:
    """Cordon a node and delete all its pods, as `kubectl drain --disable-eviction` does.

    The recorder counts evictions as migrations.
    """

    def act(cluster: EmulatedCluster) -> None:
        cordon(name)(cluster)
        for pod in cluster.api.list(PODS):
            if node_of(pod) == name:
                cluster.api.delete(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])

    return act


def _patch(resource: Resource, name: str, patch: Object, namespace: str = NAMESPACE) -> Act:
    return lambda cluster: cluster.api.patch(resource, namespace, name, patch, MERGE_PATCH)


# Course.


class Trial(msgspec.Struct, frozen=True):
    scene: str
    contender: str
    seed: int


class Outcome(msgspec.Struct, frozen=True, rename="camel"):
    trial: Trial
    #: see `Course.attainment`
    edge_share: float
    migrations: int
    target_pod_seconds: float
    #: texts of the expectations that are not met
    unmet: tuple[str, ...]


def judge(trial: Trial, scene: Scene) -> Outcome:
    """Play a scene under one contender, and judge the course by the scene's expectations.

    Each service must have Ready pods at some time: without pods nothing migrates, or is lost.
    """
    course = play(trial, scene)
    unmet = [each.text for each in scene.expected if not each.is_met(course)]
    unmet += [f"Ready pods of {name}" for name in scene.services if course.share(name) < 0]
    return Outcome(
        trial,
        round(course.attainment(), _DIGITS),
        course.count_migrations(),
        round(course.target_pod_seconds(), _DIGITS),
        tuple(unmet),
    )


def play(trial: Trial, scene: Scene) -> Course:
    """Play a scene in virtual time. Raises UsageError."""
    return run_in_virtual_time(_play_scene(trial, scene))


async def _play_scene(trial: Trial, scene: Scene) -> Course:
    clock, chosen = VirtualClock(), contender(trial.contender, scene.services)
    configured = with_settings(Configuration(), scene.settings)
    configuration = chosen.reconfigure(configured)
    if not scene.solver:
        configuration = without_solver(configuration)
    recorder = TimelineRecorder((*scene.services, *scene.others), configuration.tiers)
    spec = ClusterSpec(scene.nodes, scene.timing)
    cluster = EmulatedCluster(spec, clock, seed_rng(trial.seed, "cluster"))
    policy = find_policy(chosen.policy, configuration)
    rng = seed_rng(trial.seed, "scheduler")
    async with scheduled(cluster, clock, configuration, policy, rng, recorder):
        start = clock.monotonic()
        ordered = sorted(scene.acts, key=lambda each: each[0])
        for moment, acts in itertools.groupby(ordered, key=lambda each: each[0]):
            await clock.sleep(start + moment - clock.monotonic())
            for _, act in acts:
                act(cluster)
        await clock.sleep(start + scene.duration - clock.monotonic())
        end = clock.monotonic()
    events = cluster.api.list(EVENTS, NAMESPACE)
    targets = {
        name: configuration.qos_target(Workload(NAMESPACE, "Deployment", name))
        for name in scene.services
    }
    return Course(recorder.timeline(start, end), scene.services, targets, events)
