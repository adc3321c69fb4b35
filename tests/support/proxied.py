"""Cluster whose API server passes requests on to the scheduler's metrics port, as real ones do."""

from kubedsm.kube.client.port import ClusterFront

PROXY = "/api/v1/namespaces/kubedsm/pods/kubedsm-0:10271/proxy/"


class Proxied(ClusterFront):
    """Wrapper of a cluster; `answer` gives the response of the pod to a path."""

    def __init__(self, cluster, answer):
        super().__init__(cluster)
        self.answer = answer

    async def request(self, request, *, timeout):
        if request.path.startswith(PROXY):
            return self.answer(request.path.removeprefix(PROXY))
        return await self.cluster.request(request, timeout=timeout)
