"""Pods that wait for a scheduler that does not run, and the commands that release them."""

from collections.abc import Iterable

import attrs

from kubedsm.kube.calls.adoption import Template
from kubedsm.model.model import Pod
from kubedsm.planner.plurals import named


@attrs.frozen
class Stranded:
    """Pending pods that name a scheduler which does not run, grouped by the remedy."""

    scheduler_name: str
    #: their workload names the scheduler in its pod template
    by_template: tuple[Template, ...] = ()
    #: pods of these workloads, and pods that opted in by the admission policy
    pods: tuple[Pod, ...] = ()
    #: pods without a controller that would create them again
    bare: tuple[Pod, ...] = ()

    def list_remedies(self) -> list[str]:
        """Return the commands after which another scheduler places the pods; usually one command.

        Deleting a pod suffices if the admission policy has set its scheduler: the new pod is
        admitted while no leader renews the Lease, and gets the default scheduler.
        """
        remedies = []
        if self.by_template:
            workloads = " ".join(map(str, self.by_template))
            remedies.append(f"kubedsm opt-out {workloads}")
        templates = {each.workload for each in self.by_template}
        if any(pod.workload not in templates for pod in self.pods):
            fields = f"spec.schedulerName={self.scheduler_name},spec.nodeName=,status.phase=Pending"
            command = f"kubectl delete pods -A --field-selector={fields}"
            if self.bare:
                lost = named([str(pod) for pod in self.bare])
                command += f" (which also deletes {lost}, and no controller creates them again)"
            remedies.append(command)
        return remedies


def find_stranded(
    pods: Iterable[Pod], templates: Iterable[Template], scheduler_name: str
) -> Stranded:
    """Return the pods that wait for the scheduler; they are stranded while no leader runs."""
    waiting = [pod for pod in pods if pod.scheduler_name == scheduler_name and pod.waits_for_node]
    waiting.sort(key=str)
    named = {each.workload: each for each in templates if each.scheduler_name == scheduler_name}
    owners = dict.fromkeys(pod.workload for pod in waiting if pod.workload in named)
    return Stranded(
        scheduler_name,
        tuple(named[workload] for workload in owners),
        tuple(pod for pod in waiting if pod.workload.kind != "Pod"),
        tuple(pod for pod in waiting if pod.workload.kind == "Pod"),
    )
