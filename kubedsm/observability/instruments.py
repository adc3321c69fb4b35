"""What is counted and timed where it happens.

Names are kube-scheduler's and client-go's where the meaning is the same.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import get_args

import attrs
from prometheus_client import Counter, Histogram
from prometheus_client.registry import CollectorRegistry

from kubedsm.explain.effects import Effect
from kubedsm.explain.entries import MoveOutcome
from kubedsm.explain.listener import DecisionKind, Listener, LoadResult, Packing, Result
from kubedsm.model.events import Change
from kubedsm.model.model import Pod, Uid
from kubedsm.observability.measured_cluster import Answered
from kubedsm.observability.registry import Registry
from kubedsm.optimizer.moving.suggestion import Move, MoveKind
from kubedsm.optimizer.programming.in_order import Certificate
from kubedsm.process.clock import Clock
from plans.steps import LOST, Plan, StepKind, StepState

#: seconds, from the 1 ms of a decision on a few pods
FINE = tuple(0.001 * 2**n for n in range(15))
#: seconds, from the 5 ms of a bind to the minutes that a move takes
COARSE = tuple(0.005 * 2**n for n in range(17))
#: seconds; nothing should take the event loop for more than .05
LAGS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
#: parts, from a thousandth
GAPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
#: seconds by which something became longer, or shorter
CHANGES = (-1.0, -0.5, -0.2, -0.1, -0.05, -0.02, -0.01, -0.005, 0.0, *LAGS[2:10])
#: kube-scheduler's last label of the attempts that a pod took
MOST_ATTEMPTS = 15


@attrs.define(slots=True)
class _Waiting:
    #: since it was first seen, on the clock
    since: float
    attempts: int = 0
    #: when the attempt under way began
    began: float | None = None


class Instruments(Listener):
    """`profile`: the schedulerName, as kube-scheduler calls it; `host`: the API server's."""

    def __init__(self, clock: Clock, profile: str, host: str) -> None:
        self._clock = clock
        self._profile = profile
        self._host = host
        self._waiting: dict[Uid, _Waiting] = {}
        self.registry = Registry()
        self._scheduling(self.registry)
        self._preempting(self.registry)
        self._moving(self.registry)
        self._asking(self.registry)

    def _scheduling(self, registry: CollectorRegistry) -> None:
        self._attempts = Counter(
            "scheduler_schedule_attempts",
            "Attempts to schedule pods, by result: scheduled, unschedulable (no node takes it),"
            " error (the bind failed) or late (the batch was split, and the pod waits for the next"
            " one).",
            ["result", "profile"],
            registry=registry,
        )
        for result in ("scheduled", "unschedulable", "error", "late"):
            self._attempts.labels(result, self._profile)
        self._attempt_seconds = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "From the beginning of an attempt to its result; a bind's is that it is seen.",
            ["result", "profile"],
            buckets=COARSE,
            registry=registry,
        )
        self._pod_seconds = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From when a pod was first seen waiting until it was seen on its node.",
            ["attempts"],
            buckets=COARSE,
            registry=registry,
        )
        self._batch_size = Histogram(
            "kubedsm_batch_size_pods",
            "Pods that were decided on at once.",
            buckets=tuple(2**n for n in range(11)),
            registry=registry,
        )
        self._thought = Histogram(
            "kubedsm_decision_duration_seconds",
            "Thinking, by what about: a batch of new pods, a suggestion of moves, or packing all"
            " pods anew.",
            ["kind"],
            buckets=FINE,
            registry=registry,
        )
        self._unproven = Counter(
            "kubedsm_unproven_decisions",
            "Decisions, by what about, of which it is not proven that there is no better one.",
            ["kind"],
            registry=registry,
        )
        for kind in get_args(DecisionKind):
            self._unproven.labels(kind)
        self._gaps = Histogram(
            "kubedsm_decision_gap_ratio",
            "Of unproven decisions, by what about, and by goal: how much there might be more, as a"
            " part of the most that there can be.",
            ["kind", "goal"],
            buckets=GAPS,
            registry=registry,
        )
        self._cloud_nodes = Histogram(
            "kubedsm_cloud_nodes_looked_at",
            "Cloud nodes that were looked at for a batch, of batches for which not all were:"
            " cloud.percentageOfNodes.",
            buckets=tuple(100 * 2**n for n in range(8)),
            registry=registry,
        )
        self._bind_seconds = Histogram(
            "kubedsm_bind_duration_seconds",
            "From asking for a bind until it is seen, or known to have failed; without those"
            " of moves.",
            buckets=FINE,
            registry=registry,
        )

    def _preempting(self, registry: CollectorRegistry) -> None:
        self._preemptions = Counter(
            "scheduler_preemption_attempts",
            "Times that room was looked for among pods of lower priority.",
            registry=registry,
        )
        self._victims = Histogram(
            "scheduler_preemption_victims",
            "Pods that were chosen to go for one, all of which may.",
            buckets=tuple(2**n for n in range(7)),
            registry=registry,
        )

    def _moving(self, registry: CollectorRegistry) -> None:
        self._suggested = Counter(
            "kubedsm_suggested_moves",
            "Moves that were found to be worth it; in the mode suggest they are only proposed.",
            ["kind", "mode"],
            registry=registry,
        )
        self._packings = Counter(
            "kubedsm_packings",
            "Times that all pods were thought about anew for some that no node takes, by what is"
            " done about it: applied, proposed, nothing, or overtaken (nothing, for the cluster was"
            " another one by then).",
            ["result"],
            registry=registry,
        )
        for result in get_args(Packing):
            self._packings.labels(result)
        self._migrations = Counter(
            "kubedsm_migrations",
            "Moves of pods that are over, by result: completed, taken_back (the old pod was given"
            " back), failed, or dropped (never begun).",
            ["kind", "result"],
            registry=registry,
        )
        for kind in MoveKind:
            for result in ("completed", "taken_back", "failed", "dropped"):
                self._migrations.labels(_label(kind), result)
        self._judged = Counter(
            "kubedsm_move_effects",
            "Completed moves by what they brought their service: a mean response time that is"
            " shorter, or longer, or no telling.",
            ["kind", "result"],
            registry=registry,
        )
        for kind in MoveKind:
            for result in ("shorter", "longer", "untold"):
                self._judged.labels(_label(kind), result)
        self._response_change = Histogram(
            "kubedsm_move_response_change_seconds",
            "Of moves whose effect was measured: by how much longer their service's mean response"
            " time was to become by each, and became; below zero where it became shorter.",
            ["kind", "of"],
            buckets=CHANGES,
            registry=registry,
        )
        self._plans = Counter(
            "kubedsm_plans",
            "Plans that are over, by kind (bind: those of a batch; migration, restore) and outcome"
            " (completed, failed, dropped).",
            ["kind", "outcome"],
            registry=registry,
        )
        self._steps = Counter(
            "kubedsm_plan_steps",
            "Steps of plans that are over, by kind and outcome (done, failed, cancelled).",
            ["kind", "outcome"],
            registry=registry,
        )
        self._migration_seconds = Histogram(
            "kubedsm_migration_plan_duration_seconds",
            "From the beginning of a plan that moves pods to its end.",
            buckets=tuple(0.5 * 2**n for n in range(12)),
            registry=registry,
        )

    def _asking(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "rest_client_requests",
            "Requests to the API server, by method and code; <error> where no answer came.",
            ["code", "method", "host"],
            registry=registry,
        )
        self._request_seconds = Histogram(
            "rest_client_request_duration_seconds",
            "From sending a request to having its answer, a watch's headers.",
            ["verb", "host"],
            buckets=FINE,
            registry=registry,
        )
        self._errors = Counter(
            "kubedsm_api_errors",
            "Requests that failed, by verb and resource as RBAC names them, and code.",
            ["verb", "resource", "code"],
            registry=registry,
        )
        self.loop_lag = Histogram(
            "kubedsm_event_loop_lag_seconds",
            "By how much the event loop was late, looked at 20 times a second.",
            buckets=LAGS,
            registry=registry,
        )
        self._workers = Counter(
            "kubedsm_worker_starts",
            "Worker processes that were started, and brought up to date.",
            registry=registry,
        )
        self._unanswered = Counter(
            "kubedsm_unanswered_questions",
            "Questions that the worker process did not answer, for it ended, was not there yet, or"
            " took too long; they are asked again: suggestion, packing, preemption, explanation; or"
            " it is done without an answer: placing.",
            ["question"],
            registry=registry,
        )
        for question in ("suggestion", "packing", "preemption", "explanation"):
            self._unanswered.labels(question)
        self._load_queries = Counter(
            "kubedsm_load_queries",
            "Queries that Prometheus was asked for measured load, by result: answered, partial"
            " (some series are of no use), empty (none is of any, or there is none) or failed.",
            ["query", "result"],
            registry=registry,
        )

    def changed(self, change: Change) -> None:
        before, after = change.pod_before, change.pod_after
        if after is None:
            if before is not None:
                self._waiting.pop(before.uid, None)
        elif after.scheduler_name == self._profile and after.waits_for_node:
            self._waiting.setdefault(after.uid, _Waiting(self._clock.monotonic()))
        elif after.uid in self._waiting:
            waited = self._waiting.pop(after.uid)
            if after.node_name is not None and waited.attempts:
                attempts = f"{MOST_ATTEMPTS}+"
                if waited.attempts < MOST_ATTEMPTS:
                    attempts = str(waited.attempts)
                seconds = self._clock.monotonic() - waited.since
                self._pod_seconds.labels(attempts).observe(seconds)

    def batch_begun(self, pods: Sequence[Pod]) -> None:
        now = self._clock.monotonic()
        for pod in pods:
            waiting = self._waiting.setdefault(pod.uid, _Waiting(now))
            waiting.attempts += 1
            waiting.began = now

    def batch_decided(self, pods: Sequence[Pod], seconds: float) -> None:
        self._batch_size.observe(len(pods))
        self._thought.labels("batch").observe(seconds)

    def attempt_ended(self, pod: Pod, result: Result) -> None:
        self._attempts.labels(result, self._profile).inc()
        waiting = self._waiting.get(pod.uid)
        if waiting is not None and waiting.began is not None:
            seconds = self._clock.monotonic() - waiting.began
            self._attempt_seconds.labels(result, self._profile).observe(seconds)
            waiting.began = None

    def preemption_begun(self, pod: Pod) -> None:  # noqa: ARG002  no label takes its name
        self._preemptions.inc()

    def victims_chosen(self, pod: Pod, victims: Sequence[Pod]) -> None:  # noqa: ARG002  as above
        self._victims.observe(len(victims))

    def suggested(self, moves: Sequence[Move], mode: str, seconds: float) -> None:
        self._thought.labels("suggestion").observe(seconds)
        for move in moves:
            self._suggested.labels(_label(move.kind), mode).inc()

    def unproven(self, kind: DecisionKind, certificates: Sequence[Certificate]) -> None:
        self._unproven.labels(kind).inc()
        for certificate in certificates:
            if certificate.gap is not None:
                goal = certificate.goal.lower().replace(" ", "_")
                self._gaps.labels(kind, goal).observe(certificate.gap)

    def cloud_sampled(self, nodes: int) -> None:
        self._cloud_nodes.observe(nodes)

    def packed(self, result: Packing, seconds: float) -> None:
        self._thought.labels("packing").observe(seconds)
        self._packings.labels(result).inc()

    def bind_ended(self, seconds: float) -> None:
        self._bind_seconds.observe(seconds)

    def plan_ended(self, plan: Plan, seconds: float) -> None:
        kind = _kind(plan)
        self._plans.labels(kind, _outcome(plan, kind)).inc()
        steps: dict[tuple[str, str], int] = defaultdict(int)
        for step in plan.steps:
            steps[step.kind.value, step.state.value] += 1
        for labels, count in steps.items():
            self._steps.labels(*labels).inc(count)
        if kind == "migration":
            self._migration_seconds.observe(seconds)

    def move_ended(self, ended: MoveOutcome) -> None:
        result = ended.outcome.replace(" ", "_")
        self._migrations.labels(_label(ended.move.kind), result).inc()

    def move_judged(self, kind: MoveKind | None, effect: Effect) -> None:
        change, (before, after) = effect.change, effect.expected
        if change is None:
            self._judged.labels(_label(kind), "untold").inc()
            return
        self._judged.labels(_label(kind), "longer" if change > 0 else "shorter").inc()
        expected = (after - before) / effect.together
        self._response_change.labels(_label(kind), "expected").observe(expected)
        self._response_change.labels(_label(kind), "measured").observe(change)

    def worker_started(self) -> None:
        self._workers.inc()

    def unanswered(self, question: str) -> None:
        self._unanswered.labels(question).inc()

    def load_asked(self, query: str, result: LoadResult) -> None:
        self._load_queries.labels(query, result).inc()

    def answered(self, answered: Answered) -> None:
        """A request is over."""
        method = answered.request.method
        self._requests.labels(answered.code, method, self._host).inc()
        self._request_seconds.labels(method, self._host).observe(answered.seconds)
        if not answered.code.startswith(("2", "3")):
            self._errors.labels(answered.verb, answered.resource, answered.code).inc()


def _label(kind: MoveKind | None) -> str:
    return "unknown" if kind is None else kind.value.replace("-", "_")


def _kind(plan: Plan) -> str:
    if plan.restores_only:
        return "restore"
    return "bind" if all(step.kind is StepKind.BIND for step in plan.steps) else "migration"


def _outcome(plan: Plan, kind: str) -> str:
    starts = [step for step in plan.steps if step.kind is StepKind.START]
    if kind == "migration" and all(step.state in LOST for step in starts):
        return "dropped"
    # A rescue that was not needed is cancelled.
    wanted = (step for step in plan.steps if not step.rescues)
    return "completed" if all(step.state is StepState.DONE for step in wanted) else "failed"
