"""In which order pods are served, and which that puts before others."""

from collections.abc import Iterable

from kubedsm.model.model import Pod, Workload


def serving_order(pod: Pod) -> tuple[int, float, str, str]:
    """The order in which pods are served: by priority, then the oldest, then by name."""
    return -pod.pod_class.priority, pod.created, pod.namespace, pod.name


def levels_of(pods: Iterable[Pod]) -> dict[Workload, int] | None:
    """The level of each workload; None if all these pods are of one priority."""
    levels: dict[Workload, int] = {}
    priorities = set()
    for pod in pods:
        priority = pod.pod_class.priority
        priorities.add(priority)
        levels[pod.workload] = max(priority, levels.get(pod.workload, priority))
    return levels if len(priorities) > 1 else None
