"""A pod that is another scheduler's: that we leave it alone, and how it would become ours."""

from kubedsm.explain.explanation import Explanation
from kubedsm.model.model import Pod

#: owners that make their pods anew when the template changes
_ROLLED_OUT = ("Deployment", "StatefulSet", "DaemonSet")


def left_alone(pod: Pod, ours: str) -> Explanation:
    """Without what each node is for it. `ours`: the schedulerName of pods that are."""
    return Explanation(
        pod=str(pod),
        nodes=(),
        chosen=pod.node_name,
        bound=pod.node_name is not None,
        left_to=pod.scheduler_name,
        opt_in=_opt_in(pod, ours),
    )


def _opt_in(pod: Pod, ours: str) -> str:
    """What to write where: a pod keeps the scheduler that it is made with."""
    owner = f"{pod.workload.kind} {pod.workload}"
    if pod.workload.kind == "Pod":
        return f"create the pod anew with spec.schedulerName: {ours}"
    line = f"spec.template.spec.schedulerName: {ours}"
    if pod.workload.kind in _ROLLED_OUT:
        return f"set {line} in {owner}; it then makes its pods anew"
    return f"set {line} where {owner} comes from; it holds for pods that are made then"
