"""Credentials cost little memory, and leave the library as it is."""

import subprocess
import sys

SCRIPT = """
import sys
import kubedsm.kube.client.credentials
before = len(sys.modules)
assert "kubernetes_asyncio.client.models" not in sys.modules
import kubernetes_asyncio
from kubernetes_asyncio.client import ApiClient, Configuration, models
assert kubernetes_asyncio.client.ApiClient is ApiClient
assert kubernetes_asyncio.config.ConfigException is kubedsm.kube.client.credentials.ConfigException
assert kubernetes_asyncio.watch.Watch and models.V1Pod and Configuration
assert len(sys.modules) > before + 500
print("as usual")
"""


def test_models_are_loaded_by_those_that_use_them_only():
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "as usual\n", done.stderr
