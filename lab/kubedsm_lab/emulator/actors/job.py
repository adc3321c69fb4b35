"""The Job controller: so many pods at once, until as many have succeeded as are wanted.

Source: k8s.io/kubernetes/pkg/controller/job. Left out: finalizers by which finished pods are kept
until they are counted, the wait before a failed pod is replaced, and what has `Indexed` to do.
"""

from collections import Counter

from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.actors import conditions
from kubedsm_lab.emulator.actors.cache import Cache, Key, key_of
from kubedsm_lab.emulator.actors.controller import Controller
from kubedsm_lab.emulator.actors.ownership import claim, controller_reference, follow
from kubedsm_lab.emulator.actors.pod_state import is_active, is_finished, is_ready, is_terminating
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import JOBS, PODS, Object
from kubedsm_lab.emulator.api.values import seconds

#: what a condition begins with that says how it will end: while its last pods go
_BEGINNING = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}
_REACHED = ("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
_TOO_MANY = ("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
_TOO_LONG = ("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")


class JobController(Controller):
    def __init__(self, api: ApiServer, cache: Cache, clock: Clock) -> None:
        super().__init__(api, cache, clock)
        follow(self, JOBS)

    def reconcile(self, key: Key) -> None:
        job = self.cache.get(JOBS, key)
        if job is None or is_terminating(job):
            return
        if _how_it_ended(job) is not None:
            self._forget(job)
            return
        owner = (JOBS, job)
        pods = claim(self.api, self.cache, owner=owner, resource=PODS, eligible=lambda _: True)
        end = self._end(job, pods)
        wanted = 0 if end or job["spec"]["suspend"] else _wanted(job, pods)
        active = [pod for pod in pods if is_active(pod)]
        for pod in active[wanted:]:
            self.api.delete(PODS, *key_of(pod), uid=pod["metadata"]["uid"])
        for _ in range(wanted - len(active)):
            self.api.create(PODS, _pod_of(job), namespace=key[0])
        self._report(key, end)

    def _end(self, job: Object, pods: list[Object]) -> tuple[str, str, str] | None:
        """Condition, reason and message, if it has come to one."""
        spec, phases = job["spec"], _phases(pods)
        wanted = spec.get("completions")
        if wanted is None:
            idle = not any(is_active(pod) for pod in pods)
            reached = phases["Succeeded"] > 0 and idle
        else:
            reached = phases["Succeeded"] >= wanted
        if reached:
            return _REACHED
        if phases["Failed"] > spec["backoffLimit"]:
            return _TOO_MANY
        limit, begun = spec.get("activeDeadlineSeconds"), job["status"].get("startTime")
        if limit is not None and begun is not None and not spec["suspend"]:
            left = seconds(begun) + limit - self.clock.wall()
            if self.has_come(self.clock.monotonic() + left, key_of(job)):
                return _TOO_LONG
        return None

    def _report(self, key: Key, end: tuple[str, str, str] | None) -> None:
        job = self.cache.get(JOBS, key)
        if job is None:
            return
        pods = self.cache.controlled_by(PODS, job["metadata"]["uid"])
        status, now, phases = job["status"], self.now(), _phases(pods)
        counts = {
            "active": sum(map(is_active, pods)),
            "succeeded": phases["Succeeded"],
            "failed": phases["Failed"],
        }
        suspended = job["spec"]["suspend"]
        after: Object = {
            **({} if suspended else {"startTime": status.get("startTime") or now}),
            **{name: count for name, count in counts.items() if count},
            "terminating": sum(is_terminating(pod) and not is_finished(pod) for pod in pods),
            "ready": sum(is_ready(pod) and is_active(pod) for pod in pods),
            "uncountedTerminatedPods": {},
        }
        known = conditions.of(status)
        if suspended or conditions.find(known, "Suspended"):
            why = ("JobSuspended", "Job suspended") if suspended else ("JobResumed", "Job resumed")
            known = conditions.updated(known, _condition("Suspended", suspended, now, *why))
        if end is not None:
            kind, reason, text = end
            begun = _condition(_BEGINNING[kind], True, now, reason, text)
            known = conditions.updated(known, begun)
            if not counts["active"] and not after["terminating"]:
                known = [*known, _condition(kind, True, now, reason, text)]
                if kind == "Complete":
                    after["completionTime"] = now
        self.write_status(JOBS, job, {**after, "conditions": known} if known else after)

    def _forget(self, job: Object) -> None:
        """One that says for how long it is to be kept."""
        keep, ended = job["spec"].get("ttlSecondsAfterFinished"), _how_it_ended(job)
        if keep is None or ended is None:
            return
        left = seconds(ended["lastTransitionTime"]) + keep - self.clock.wall()
        if self.has_come(self.clock.monotonic() + left, key_of(job)):
            self.api.delete(
                JOBS, *key_of(job), uid=job["metadata"]["uid"], propagation="Background"
            )


def _how_it_ended(job: Object) -> Object | None:
    known = conditions.of(job["status"])
    return next((c for c in known if c["type"] in _BEGINNING and c["status"] == "True"), None)


def _wanted(job: Object, pods: list[Object]) -> int:
    """How many pods are to be active."""
    spec, done = job["spec"], _phases(pods)["Succeeded"]
    at_once: int = spec["parallelism"]
    wanted: int | None = spec.get("completions")
    if wanted is not None:
        return max(0, min(at_once, wanted - done))
    # Who takes work from a queue knows that it is empty: then no more are begun.
    return sum(map(is_active, pods)) if done else at_once


def _phases(pods: list[Object]) -> Counter[str]:
    return Counter(pod["status"].get("phase", "") for pod in pods)


def _condition(kind: str, status: bool, now: str, reason: str, message: str) -> Object:
    return {**conditions.condition(kind, status, now, reason, message), "lastProbeTime": now}


def _pod_of(job: Object) -> Object:
    template = job["spec"]["template"]
    given = template.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{job['metadata']['name']}-",
            "ownerReferences": [controller_reference(JOBS, job)],
            **{field: given[field] for field in ("labels", "annotations") if given.get(field)},
        },
        "spec": template["spec"],
    }
