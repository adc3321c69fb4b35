"""CronJob controller: create a Job every N minutes.

Source: k8s.io/kubernetes/pkg/controller/cronjob. Not emulated: other schedules, `timeZone`,
`startingDeadlineSeconds`; only the latest of several missed times is made up for.
"""

from kubedsm_lab.emulator.actors.cache import Key
from kubedsm_lab.emulator.actors.controller import Controller
from kubedsm_lab.emulator.actors.job import final_condition
from kubedsm_lab.emulator.actors.ownership import controller_reference
from kubedsm_lab.emulator.api.object_state import is_terminating, key_of
from kubedsm_lab.emulator.api.resources import CRON_JOBS, JOBS, Object
from kubedsm_lab.emulator.api.validation import EVERY_MINUTES
from kubedsm_lab.emulator.api.values import rfc3339, seconds

_MINUTE = 60


class CronJobController(Controller):
    component = "cronjob-controller"

    def subscribe(self) -> None:
        self.follow(CRON_JOBS)
        self.cache.on(JOBS, lambda change: self._enqueue_owner(change.object))

    def _enqueue_owner(self, job: Object) -> None:
        found = self.cache.find_controller(job)
        if found and found[0] is CRON_JOBS:
            self.enqueue(key_of(found[1]))

    def reconcile(self, key: Key) -> None:
        cron = self.cache.get(CRON_JOBS, key)
        if cron is None or is_terminating(cron):
            return
        self._delete_old_jobs(cron)
        scheduled = self._find_due(cron)
        if scheduled is not None and self._may_start(cron):
            self._create_job(cron, scheduled)
            cron = self.cache.get(CRON_JOBS, key) or cron
        status = {} if scheduled is None else {"lastScheduleTime": rfc3339(scheduled * _MINUTE)}
        active = [_reference(job) for job in self._jobs(cron) if final_condition(job) is None]
        kept = {name: each for name, each in cron["status"].items() if name != "active"}
        self.write_status(
            CRON_JOBS, cron, {**kept, **status, **({"active": active} if active else {})}
        )

    def _find_due(self, cron: Object) -> int | None:
        """Return the latest scheduled time not yet served, in minutes since the epoch; before the
        next one, enqueue the key for it and return None.
        """
        period = int(EVERY_MINUTES.sub(r"\1", cron["spec"]["schedule"]) or 1)
        known = cron["status"].get("lastScheduleTime") or cron["metadata"]["creationTimestamp"]
        served = int(seconds(known)) // _MINUTE
        following = _next_minute(served, period)
        if cron["spec"]["suspend"] or not self.has_passed(following * _MINUTE, key_of(cron)):
            return None
        now = int(self.clock.wall()) // _MINUTE
        while (later := _next_minute(following, period)) <= now:
            following = later
        return following

    def _may_start(self, cron: Object) -> bool:
        active = [job for job in self._jobs(cron) if final_condition(job) is None]
        policy = cron["spec"]["concurrencyPolicy"]
        if policy == "Replace":
            for job in active:
                self._delete(job)
        return policy != "Forbid" or not active

    def _create_job(self, cron: Object, scheduled: int) -> None:
        template = cron["spec"]["jobTemplate"]
        given = template.get("metadata") or {}
        kept = {field: given[field] for field in ("labels", "annotations") if given.get(field)}
        namespace, name = key_of(cron)
        job = {
            "apiVersion": JOBS.api_version,
            "kind": JOBS.kind,
            "metadata": {
                **kept,
                "name": f"{name}-{scheduled}",
                "ownerReferences": [controller_reference(CRON_JOBS, cron)],
            },
            "spec": template["spec"],
        }
        if not self.api.exists(JOBS, namespace, f"{name}-{scheduled}"):
            self.api.create(JOBS, job, namespace=namespace)
            self.note(CRON_JOBS, cron, "SuccessfulCreate", f"Created job {name}-{scheduled}")

    def _delete_old_jobs(self, cron: Object) -> None:
        """Delete the oldest finished Jobs above the limits of the history."""
        for kind, field in (
            ("Complete", "successfulJobsHistoryLimit"),
            ("Failed", "failedJobsHistoryLimit"),
        ):
            ended = [
                job
                for job in self._jobs(cron)
                if (found := final_condition(job)) is not None and found["type"] == kind
            ]
            ended.sort(key=lambda job: str(job["metadata"]["name"]))
            for job in ended[: max(0, len(ended) - cron["spec"][field])]:
                self._delete(job)

    def _delete(self, job: Object) -> None:
        uid = job["metadata"]["uid"]
        self.api.delete(JOBS, *key_of(job), uid=uid, propagation="Background")

    def _jobs(self, cron: Object) -> list[Object]:
        found = self.cache.list_controlled(JOBS, cron["metadata"]["uid"])
        return [job for job in found if not is_terminating(job)]


def _next_minute(after: int, period: int) -> int:
    """Return the next minute since the epoch whose minute of the hour is a multiple of the
    period.
    """
    return next(each for each in range(after + 1, after + 61) if each % 60 % period == 0)


def _reference(job: Object) -> Object:
    metadata = job["metadata"]
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
    }
