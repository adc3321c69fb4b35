"""Prometheus counters and histograms of the scheduler, updated by callbacks.

Names follow kube-scheduler and client-go for equivalent measurements.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, get_args

import attrs
import structlog
from prometheus_client import Counter, Histogram, disable_created_metrics
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import CollectorRegistry

from kubedsm.explain.effects import Effect
from kubedsm.explain.listener import DecisionKind, Listener, LoadResult, Packing, Result
from kubedsm.explain.migration_outcome import MoveOutcome, Outcome
from kubedsm.kube.calls.explained_cluster import right_for
from kubedsm.kube.client.port import Request
from kubedsm.model.events import Change
from kubedsm.model.model import Pod, Uid
from kubedsm.optimizer.moving.suggestion import Move, MoveKind
from kubedsm.optimizer.programming.in_order import Certificate
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import LogThrottle
from plans.steps import LOST, Plan, StepKind, StepState

log = structlog.get_logger()

#: seconds between two samples of event loop lag
SAMPLE = 0.05
#: minimum logged lag in seconds, above the lag of every start
LOGGED = 0.5
#: seconds, from 1 ms, a decision on a few pods
FINE = tuple(0.001 * 2**n for n in range(15))
#: seconds, from 5 ms, a bind, to the minutes of a migration
COARSE = tuple(0.005 * 2**n for n in range(17))
#: seconds; nothing should block the event loop for more than 0.05
LAGS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
#: ratios
GAPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
#: change of a response time in seconds
CHANGES = (-1.0, -0.5, -0.2, -0.1, -0.05, -0.02, -0.01, -0.005, 0.0, *LAGS[2:10])
#: kube-scheduler's last label for attempts of a pod
MOST_ATTEMPTS = 15


@attrs.frozen
class Families:
    """Collection of precomputed metrics, exposed like a Prometheus registry."""

    families: tuple[Metric, ...]

    def collect(self) -> Iterator[Metric]:
        return iter(self.families)


@attrs.define(slots=True)
class _Waiting:
    #: time of the first observation, on the clock
    since: float
    attempts: int = 0
    #: begin of the attempt in progress
    began: float | None = None


class Instruments(Listener):
    """Prometheus counters and histograms of the scheduler, updated by listener callbacks.

    `profile`: the schedulerName, as kube-scheduler calls it; `host`: the API server's.
    """

    def __init__(self, clock: Clock, profile: str, host: str) -> None:
        self._clock = clock
        self._profile = profile
        self._host = host
        self._waiting: dict[Uid, _Waiting] = {}
        #: time series by metric and labels, for each request and pod: `labels` takes a lock
        self._series: Callable[..., Any] = cache(lambda metric, *labels: metric.labels(*labels))
        # Samples of creation times would double the counters.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._define_scheduling()
        self._define_rebalancing()
        self._define_process()

    def _counter(self, name: str, text: str, labels: str = "") -> Counter:
        return Counter(name, text, labels.split(), registry=self.registry)

    def _histogram(
        self, name: str, text: str, buckets: Sequence[float], labels: str = ""
    ) -> Histogram:
        return Histogram(name, text, labels.split(), buckets=buckets, registry=self.registry)

    def _define_scheduling(self) -> None:
        self._attempts = self._counter(
            "scheduler_schedule_attempts",
            "Attempts to schedule pods by result: scheduled, unschedulable (no feasible node),"
            " error (the bind failed) or late (the batch was split, and the pod waits for the next"
            " one).",
            "result profile",
        )
        for result in ("scheduled", "unschedulable", "error", "late"):
            self._attempts.labels(result, self._profile)
        self._attempt_seconds = self._histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Time from the begin of an attempt to its result; a bind ends when it is observed.",
            COARSE,
            "result profile",
        )
        self._pod_seconds = self._histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from the first observation of a pending pod to its observed bind.",
            COARSE,
            "attempts",
        )
        self._batch_size = self._histogram(
            "kubedsm_batch_size_pods", "Pods per batch.", tuple(2**n for n in range(11))
        )
        self._thought = self._histogram(
            "kubedsm_decision_duration_seconds",
            "Solving time by decision type: a batch of new pods, a suggestion of migrations, or"
            " packing.",
            FINE,
            "kind",
        )
        self._unproven = self._counter(
            "kubedsm_unproven_decisions",
            "Decisions that are not proven optimal, by decision type.",
            "kind",
        )
        for kind in get_args(DecisionKind):
            self._unproven.labels(kind)
        self._gaps = self._histogram(
            "kubedsm_decision_gap_ratio",
            "Relative optimality gap of decisions not proven optimal, by decision type and goal.",
            GAPS,
            "kind goal",
        )
        self._cloud_nodes = self._histogram(
            "kubedsm_cloud_nodes_looked_at",
            "Cloud nodes sampled per batch, for batches that sampled: cloud.percentageOfNodes.",
            tuple(100 * 2**n for n in range(8)),
        )
        self._bind_seconds = self._histogram(
            "kubedsm_bind_duration_seconds",
            "Time from the request of a bind to its observation or failure, without those of"
            " migrations.",
            FINE,
        )

        self._preemptions = self._counter(
            "scheduler_preemption_attempts", "Attempts to preempt pods of lower priority."
        )
        self._victims = self._histogram(
            "scheduler_preemption_victims",
            "Victims chosen per preemption.",
            tuple(2**n for n in range(7)),
        )

    def _define_rebalancing(self) -> None:
        self._suggested = self._counter(
            "kubedsm_suggested_moves",
            "Suggested migrations; in the mode suggest they are only proposed.",
            "kind mode",
        )
        self._packings = self._counter(
            "kubedsm_packings",
            "Packings for unschedulable pods by result: applied, proposed, nothing, or overtaken"
            " (the cluster changed meanwhile).",
            "result",
        )
        for result in get_args(Packing):
            self._packings.labels(result)
        self._migrations = self._counter(
            "kubedsm_migrations",
            "Finished migrations by result: completed, taken_back (rolled back), failed, or"
            " dropped (never begun).",
            "kind result",
        )
        for kind in MoveKind:
            for result in ("completed", "taken_back", "failed", "dropped"):
                self._migrations.labels(_migration_label(kind), result)
        self._judged = self._counter(
            "kubedsm_move_effects",
            "Completed migrations by effect on the service's mean response time: shorter, longer,"
            " or untold (not measurable).",
            "kind result",
        )
        for kind in MoveKind:
            for result in ("shorter", "longer", "untold"):
                self._judged.labels(_migration_label(kind), result)
        self._response_change = self._histogram(
            "kubedsm_move_response_change_seconds",
            "Expected and measured change of the service's mean response time per migration,"
            " where it was measured; negative: shorter.",
            CHANGES,
            "kind of",
        )
        self._plans = self._counter(
            "kubedsm_plans",
            "Finished plans by kind (bind: of a pod; migration, restore) and outcome"
            " (completed, failed, dropped).",
            "kind outcome",
        )
        self._steps = self._counter(
            "kubedsm_plan_steps",
            "Steps of finished plans by kind and outcome (done, failed, cancelled).",
            "kind outcome",
        )
        self._migration_seconds = self._histogram(
            "kubedsm_migration_plan_duration_seconds",
            "Duration of plans that migrate pods.",
            tuple(0.5 * 2**n for n in range(12)),
        )

    def _define_process(self) -> None:
        self._requests = self._counter(
            "rest_client_requests",
            "Requests to the API server by method and code; <error>: no response.",
            "code method host",
        )
        self._request_seconds = self._histogram(
            "rest_client_request_duration_seconds",
            "Time from sending a request to its response; of a watch, to its headers.",
            FINE,
            "verb host",
        )
        self._errors = self._counter(
            "kubedsm_api_errors",
            "Failed requests by verb and resource, as RBAC names them, and code.",
            "verb resource code",
        )
        self.loop_lag = self._histogram(
            "kubedsm_event_loop_lag_seconds", "Event loop lag, sampled 20 times a second.", LAGS
        )
        self._unanswered = self._counter(
            "kubedsm_unanswered_questions",
            "Requests without a response of the planner process, because it ended, did not start,"
            " or exceeded the deadline. Suggestion, packing, preemption and explanation are"
            " retried; placing uses the fallback.",
            "question",
        )
        for question in ("suggestion", "packing", "preemption", "explanation"):
            self._unanswered.labels(question)
        self._load_queries = self._counter(
            "kubedsm_load_queries",
            "Prometheus queries for measured load by result: answered, partial (some series are"
            " unusable), empty (no usable series) or failed.",
            "query result",
        )

    def mirror_changed(self, change: Change) -> None:
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
                self._series(self._pod_seconds, attempts).observe(seconds)

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
        self._series(self._attempts, result, self._profile).inc()
        waiting = self._waiting.get(pod.uid)
        if waiting is not None and waiting.began is not None:
            seconds = self._clock.monotonic() - waiting.began
            self._series(self._attempt_seconds, result, self._profile).observe(seconds)
            waiting.began = None

    def preemption_begun(self, pod: Pod) -> None:  # noqa: ARG002  no label takes its name
        self._preemptions.inc()

    def victims_chosen(self, pod: Pod, victims: Sequence[Pod]) -> None:  # noqa: ARG002  as above
        self._victims.observe(len(victims))

    def suggestion_made(self, moves: Sequence[Move], mode: str, seconds: float) -> None:
        self._thought.labels("suggestion").observe(seconds)
        for move in moves:
            self._suggested.labels(_migration_label(move.kind), mode).inc()

    def optimality_unproven(self, kind: DecisionKind, certificates: Sequence[Certificate]) -> None:
        self._unproven.labels(kind).inc()
        for certificate in certificates:
            if certificate.gap is not None:
                goal = certificate.goal.lower().replace(" ", "_")
                self._gaps.labels(kind, goal).observe(certificate.gap)

    def cloud_sampled(self, nodes: int) -> None:
        self._cloud_nodes.observe(nodes)

    def packing_ended(self, result: Packing, seconds: float) -> None:
        self._thought.labels("packing").observe(seconds)
        self._packings.labels(result).inc()

    def bind_ended(self, seconds: float) -> None:
        self._bind_seconds.observe(seconds)

    def plan_ended(self, plan: Plan, seconds: float) -> None:
        kind = _plan_kind(plan)
        self._series(self._plans, kind, _plan_outcome(plan, kind)).inc()
        for step in plan.steps:
            self._series(self._steps, step.kind, step.state).inc()
        if kind == "migration":
            self._migration_seconds.observe(seconds)

    def move_ended(self, ended: MoveOutcome) -> None:
        rolled_back = ended.outcome is Outcome.ROLLED_BACK
        result = "taken_back" if rolled_back else ended.outcome.value
        self._migrations.labels(_migration_label(ended.move.kind), result).inc()

    def move_judged(self, kind: MoveKind | None, effect: Effect) -> None:
        change = effect.change
        if change is None:
            self._judged.labels(_migration_label(kind), "untold").inc()
            return
        self._judged.labels(_migration_label(kind), "longer" if change > 0 else "shorter").inc()
        expected = effect.expected_change
        self._response_change.labels(_migration_label(kind), "expected").observe(expected)
        self._response_change.labels(_migration_label(kind), "measured").observe(change)

    def request_unanswered(self, question: str) -> None:
        self._unanswered.labels(question).inc()

    def load_asked(self, query: str, result: LoadResult) -> None:
        self._load_queries.labels(query, result).inc()

    def count_request(self, request: Request, code: str, seconds: float) -> None:
        """Count a finished API request by verb, resource and status."""
        self._series(self._requests, code, request.method, self._host).inc()
        self._series(self._request_seconds, request.method, self._host).observe(seconds)
        if not code.startswith(("2", "3")):
            right, _ = right_for(request)
            self._errors.labels(right.verb, right.resource, code).inc()


def _migration_label(kind: MoveKind | None) -> str:
    return "unknown" if kind is None else kind.value.replace("-", "_")


def _plan_kind(plan: Plan) -> str:
    kinds = [step.kind for step in plan.steps]
    if StepKind.START in kinds:
        return "migration"
    return "restore" if StepKind.RESTORE in kinds else "bind"


def _plan_outcome(plan: Plan, kind: str) -> str:
    starts = (step for step in plan.steps if step.kind is StepKind.START)
    if kind == "migration" and all(step.state in LOST for step in starts):
        return "dropped"
    # Unnecessary rollback steps are cancelled.
    wanted = (step for step in plan.steps if not step.rescues)
    return "completed" if all(step.state is StepState.DONE for step in wanted) else "failed"


async def watch_the_loop(clock: Clock, *observers: Callable[[float], object]) -> None:
    """Measure event loop lag until cancelled; report each sample in seconds."""
    throttle = LogThrottle(clock)
    while True:
        due = clock.monotonic() + SAMPLE
        await clock.sleep(SAMPLE)
        late = max(0.0, clock.monotonic() - due)
        for observe in observers:
            observe(late)
        more = throttle.count_suppressed("event loop", "late") if late > LOGGED else None
        if more is not None:
            log.warning("event loop late", milliseconds=round(1000 * late), more=more)
