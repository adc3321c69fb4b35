"""Cluster whose API server passes requests on to the scheduler's metrics port, as real ones do."""

from kubedsm.kube.client.port import Response
from kubedsm.observability.gauges import families
from kubedsm.observability.health import readiness
from kubedsm.observability.instruments import Families, format_metrics
from kubedsm.observability.reading import Leadership, read

PROXY = "/api/v1/namespaces/kubedsm/pods/kubedsm-0:10271/proxy/"


class Proxied:
    """Wrapper of a cluster; `answer` gives the response of the pod to a path."""

    def __init__(self, cluster, answer):
        self.cluster, self.answer = cluster, answer

    async def request(self, request, *, timeout):
        if request.path.startswith(PROXY):
            return self.answer(request.path.removeprefix(PROXY))
        return await self.cluster.request(request, timeout=timeout)

    def stream(self, request, *, timeout):
        return self.cluster.stream(request, timeout=timeout)


def answers_of(world):
    """Return the function that answers as the scheduler of the world."""

    def answer(path):
        if path == "readyz":
            health = readiness(world.runtime, Leadership())
            return Response(200 if health.well else 503, health.text(verbose=True).encode())
        reading = read(world.runtime, Leadership(), world.clock.wall())
        return Response(200, format_metrics(Families(tuple(families(reading)))))

    return answer
