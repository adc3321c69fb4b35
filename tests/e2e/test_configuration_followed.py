"""`kubedsm run` follows its configuration, and `kubedsm config` reads it from the cluster."""

import json

import pytest

from support.command_line import kubedsm
from support.processes import Process, Server

pytestmark = pytest.mark.http

PATH = "/api/v1/namespaces/kubedsm/configmaps"
NAME = "kubedsm/kubedsm"


class Following(Process):
    """`kubedsm run`, read line by line."""

    def __init__(self, server, *arguments):
        super().__init__(
            "run", "--kubeconfig", server.kubeconfig, "-o", "json", "--diagnostics-port", "0",
            *arguments,
        )  # fmt: skip

    def until(self, event):
        while (said := json.loads(self.line()))["event"] != event:
            pass
        return said


@pytest.fixture(scope="module")
def server():
    with Server() as started:
        yield started


def config_map(text):
    return {"metadata": {"name": "kubedsm"}, "data": {"config.yaml": text}}


def test_an_edited_config_map_holds_or_is_refused_and_can_be_shown(server):
    with Following(server, "--configmap", NAME) as running:
        missing = running.until("configuration unreadable, defaults in effect")
        assert NAME in missing["source"]
        running.until("synced")
        server.call("POST", PATH, config_map("services: {shop/*: {qos: 0.5}}"))
        taken = running.until("configuration taken")
        assert (taken["generation"], taken["changed"]) == (2, "services.*, services.shop/*")
        server.call("PUT", f"{PATH}/kubedsm", config_map("services: {shop/*: {qos: 5}}"))
        refused = running.until("configuration refused")
        assert refused["error"].endswith("services.shop/*.qos: 5 is not between 0 and 1")
        server.until(lambda: "ConfigurationRefused" in reasons(server))
        server.call("PUT", f"{PATH}/kubedsm", config_map("batch: {size: 7}"))
        assert running.until("configuration taken")["generation"] == 3
        where = ("--kubeconfig", server.kubeconfig, "--configmap", NAME)
        shown = kubedsm("config", "show", *where, "-o", "json")
        assert json.loads(shown.stdout)["from"]["batch.size"] == f"ConfigMap {NAME}, config.yaml:1"


def reasons(server):
    listed = server.call("GET", "/api/v1/namespaces/kubedsm/events")["items"]
    return [event["reason"] for event in listed]
