"""The experiment's cluster and its one service.

Source: the paper of the rotating score cache, and the manifests of its authors' benchmark. What it
does not say is ours, and docs/hpa.md says so.
"""

from kubedsm_lab.emulator.api.resources import (
    DEPLOYMENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    SERVICES,
    Object,
    Resource,
)
from kubedsm_lab.emulator.paper import node, service_objects

NAME = "php-apache"
#: the autoscaler's bounds, and the percentage of its request that it keeps each pod's CPU at
LEAST, MOST, UTILISATION = 3, 20, 50
#: core-seconds of a request: one more connection on a pod is .4 s more, so that up to two of them
#: keep the promise, as they do on any pod if 10 are spread well over 20, and three break it
DEMAND = 0.2
#: seconds, after which a client gives up
TIMEOUT = 15.0

#: five e2-standard-2, of which so much is left to pods. The paper knows no tiers: all are edge.
NODES = tuple(node(f"worker-{number}", "edge", "1930m", "5.9Gi") for number in range(1, 6))


def objects() -> tuple[tuple[Resource, Object], ...]:
    """What to create, in this order. How fast it scales is left to Kubernetes' defaults."""
    deployment, service, autoscaler = service_objects(NAME, "200m", "128Mi", replicas=(LEAST, MOST))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    container["resources"]["limits"] = {"cpu": "500m", "memory": "256Mi"}
    target = {"type": "Utilization", "averageUtilization": UTILISATION}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    autoscaler["spec"]["metrics"] = [metric]
    del autoscaler["spec"]["behavior"]
    return (
        (DEPLOYMENTS, deployment),
        (SERVICES, service),
        (HORIZONTAL_POD_AUTOSCALERS, autoscaler),
    )
