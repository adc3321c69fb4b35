"""Job controller: up to `parallelism` active pods until `completions` of them have succeeded.

Source: k8s.io/kubernetes/pkg/controller/job. Not emulated: finalizers that keep finished pods until
they are counted, the back-off before a failed pod is replaced, and `completionMode: Indexed`.
"""

from collections import Counter

from kubedsm_lab.emulator.actors.cache import Key
from kubedsm_lab.emulator.actors.controller import Controller
from kubedsm_lab.emulator.actors.ownership import build_owned_pod, claim
from kubedsm_lab.emulator.api.object_state import (
    conditions_of,
    find_condition,
    is_active,
    is_finished,
    is_ready,
    is_terminating,
    key_of,
    new_condition,
    update_condition,
)
from kubedsm_lab.emulator.api.resources import JOBS, PODS, Object
from kubedsm_lab.emulator.api.values import seconds

#: final condition → preliminary condition during termination of the last pods
_BEGINNING = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}
_REACHED = ("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
_TOO_MANY = ("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
_TOO_LONG = ("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")


class JobController(Controller):
    component = "job-controller"

    def subscribe(self) -> None:
        self.follow_with_pods(JOBS)

    def reconcile(self, key: Key) -> None:
        job = self.cache.get(JOBS, key)
        if job is None or is_terminating(job):
            return
        if final_condition(job) is not None:
            self._delete_after_ttl(job)
            return
        pods = claim(self, JOBS, job)
        end = self._end(job, pods)
        wanted = 0 if end or job["spec"]["suspend"] else _count_wanted(job, pods)
        active = [pod for pod in pods if is_active(pod)]
        for pod in active[wanted:]:
            self.api.delete(PODS, *key_of(pod), uid=pod["metadata"]["uid"])
            self.note(JOBS, job, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")
        for _ in range(wanted - len(active)):
            pod = build_owned_pod(JOBS, job, generateName=f"{key[1]}-")
            made = self.api.create(PODS, pod, namespace=key[0])
            self.note(JOBS, job, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")
        self._report(key, end)

    def _end(self, job: Object, pods: list[Object]) -> tuple[str, str, str] | None:
        """Return condition, reason and message of the Job's end, if it has ended."""
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
        limited = limit is not None and begun is not None and not spec["suspend"]
        if limited and self.has_passed(seconds(begun) + limit, key_of(job)):
            return _TOO_LONG
        return None

    def _report(self, key: Key, end: tuple[str, str, str] | None) -> None:
        job = self.cache.get(JOBS, key)
        if job is None:
            return
        pods = self.cache.list_controlled(PODS, job["metadata"]["uid"])
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
        known = conditions_of(status)
        if suspended or find_condition(known, "Suspended"):
            why = ("JobSuspended", "Job suspended") if suspended else ("JobResumed", "Job resumed")
            known = update_condition(
                known, new_condition("Suspended", suspended, now, *why, lastProbeTime=now)
            )
        if end is not None:
            kind, reason, text = end
            begun = new_condition(_BEGINNING[kind], True, now, reason, text, lastProbeTime=now)
            known = update_condition(known, begun)
            if not counts["active"] and not after["terminating"]:
                known = [*known, {**begun, "type": kind}]
                if kind == "Complete":
                    after["completionTime"] = now
                    self.note(JOBS, job, "Completed", "Job completed")
                else:
                    self.note(JOBS, job, reason, text, "Warning")
        self.write_status(JOBS, job, {**after, "conditions": known} if known else after)

    def _delete_after_ttl(self, job: Object) -> None:
        keep, ended = job["spec"].get("ttlSecondsAfterFinished"), final_condition(job)
        if keep is None or ended is None:
            return
        if self.has_passed(seconds(ended["lastTransitionTime"]) + keep, key_of(job)):
            self.api.delete(
                JOBS, *key_of(job), uid=job["metadata"]["uid"], propagation="Background"
            )


def final_condition(job: Object) -> Object | None:
    """Return the condition that says how the Job ended; None for an unfinished Job."""
    known = conditions_of(job["status"])
    return next((c for c in known if c["type"] in _BEGINNING and c["status"] == "True"), None)


def _count_wanted(job: Object, pods: list[Object]) -> int:
    """Return the wanted number of active pods."""
    spec, done = job["spec"], _phases(pods)["Succeeded"]
    at_once: int = spec["parallelism"]
    wanted: int | None = spec.get("completions")
    if wanted is not None:
        return max(0, min(at_once, wanted - done))
    # A succeeded worker indicates an empty work queue: no further pod is started.
    return sum(map(is_active, pods)) if done else at_once


def _phases(pods: list[Object]) -> Counter[str]:
    return Counter(pod["status"].get("phase", "") for pod in pods)
