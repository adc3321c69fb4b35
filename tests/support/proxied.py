"""Cluster whose API server passes requests on to the scheduler's metrics port, as real ones do."""

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
