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
