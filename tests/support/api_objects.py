"""Short forms of requests to an emulated API server."""

from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, PODS

MERGE = "application/merge-patch+json"
NS = "default"


class ApiObjects:
    """Objects of the API server `api`, in the namespace `default` unless another is given."""

    def create(self, resource, name, namespace=NS, *, labels=None, **fields):
        """Create an object with a name and the given fields."""
        metadata = {"name": name, **({"labels": labels} if labels else {})}
        namespace = namespace if resource.namespaced else ""
        return self.api.create(resource, {"metadata": metadata, **fields}, namespace=namespace)

    def get(self, resource, name, namespace=NS):
        return self.api.get(resource, namespace if resource.namespaced else "", name)

    def patch(self, resource, name, patch, namespace=NS, **subresource):
        """Merge a patch into an object."""
        namespace = namespace if resource.namespaced else ""
        return self.api.patch(resource, namespace, name, patch, MERGE, **subresource)

    def scale(self, name, replicas):
        self.patch(DEPLOYMENTS, name, {"spec": {"replicas": replicas}})

    def pods(self, app=None):
        return self.api.list(PODS, NS, labels=f"app={app}" if app else "")
