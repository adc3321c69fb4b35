"""Pods of a Deployment, as values of the model."""

from kubedsm.model.model import Pod, PodClass, Resources, SchedulingRules, Uid, Workload


def made_pod(name, *, uid="", workload="web", namespace="shop", requests=None, cpu=1, **fields):
    """Return a pod of our scheduler; `rules`, `priority` and `preempts` belong to its class."""
    rules, priority = fields.pop("rules", None) or SchedulingRules(), fields.pop("priority", 0)
    if requests is None:
        requests = Resources(cpu=cpu, pods=1)
    return Pod(
        Uid(uid or name),
        namespace,
        name,
        Workload(namespace, "Deployment", workload),
        PodClass(requests, rules, priority, fields.pop("preempts", True)),
        fields.pop("scheduler_name", "kubedsm"),
        **fields,
    )
