"""Pods in the JSON form of the API."""


def container(restart=None, **requests):
    made = {"name": "c", "resources": {"requests": requests}}
    return {**made, "restartPolicy": restart} if restart else made


def made_pod(*, metadata=None, status=None, **spec):
    return {
        "metadata": {"name": "a", "namespace": "shop", "uid": "u1", **(metadata or {})},
        "spec": {"containers": [container(cpu="1")], **spec},
        "status": status or {},
    }


def serving_pod(name, app, node, *, ready=True):
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": {"app": app}}
    conditions = [{"type": "Ready", "status": str(ready)}]
    status = {"phase": "Running", "conditions": conditions}
    return made_pod(metadata=metadata, status=status, nodeName=node)
