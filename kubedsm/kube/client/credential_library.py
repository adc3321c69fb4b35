"""Loading of kubeconfig credentials by the library kubernetes_asyncio, without importing its API
models.

`import kubernetes_asyncio` loads a thousand modules: 36 MB and half a second, of which credentials
need 0.5 MB. Hence its two outer packages are registered unexecuted; any other name that is asked of
them later loads the package completely.
"""

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import ModuleType
from typing import Any

_PACKAGES = ("kubernetes_asyncio", "kubernetes_asyncio.client")


def _register_package(name: str) -> ModuleType:
    """Register a package whose code runs when an unknown name of the package is looked up."""
    parent = sys.modules.get(name.rpartition(".")[0])
    spec = PathFinder.find_spec(name, None if parent is None else parent.__path__)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    package, loader = module_from_spec(spec), spec.loader

    def complete(attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        vars(package).pop("__getattr__", None)
        loader.exec_module(package)
        return getattr(package, attribute)

    vars(package)["__getattr__"] = complete
    sys.modules[name] = package
    if parent is not None:
        vars(parent)[name.rpartition(".")[2]] = package
    return package


if _PACKAGES[0] not in sys.modules:
    _, _client = map(_register_package, _PACKAGES)
    from kubernetes_asyncio.client.configuration import Configuration

    # The loaders name ApiClient, and use it for nothing.
    vars(_client).update(Configuration=Configuration, ApiClient=None)
    import_module("kubernetes_asyncio.config")
    del vars(_client)["ApiClient"]

from kubernetes_asyncio.client import Configuration  # noqa: E402
from kubernetes_asyncio.config import ConfigException  # noqa: E402
from kubernetes_asyncio.config.incluster_config import InClusterConfigLoader  # noqa: E402
from kubernetes_asyncio.config.kube_config import KubeConfigLoader, load_kube_config  # noqa: E402

__all__ = [
    "ConfigException",
    "Configuration",
    "InClusterConfigLoader",
    "KubeConfigLoader",
    "load_kube_config",
]
