"""`kubedsm run --page`, as a process: who is shown the page, and its end."""

import json
import signal
import urllib.error
import urllib.request

import pytest

from support.processes import PATIENCE, Process, Server

pytestmark = pytest.mark.http


@pytest.fixture(scope="module")
def server():
    with Server("--page", "--page-address", "127.0.0.1:0") as started:
        yield started


def test_it_is_served_beside_the_decisions_and_ends_with_its_viewers(server):
    given = ("--kubeconfig", server.kubeconfig, "--leader-elect=false", "-o", "json")
    with Process("run", *given, "--diagnostics-port", "0", "--page") as scheduler:
        said = json.loads(scheduler.line())
        assert said["page"] == said["diagnostics"]

        def asked(path, **headers):
            request = urllib.request.Request(said["page"] + path, headers=headers)
            return urllib.request.urlopen(request, timeout=PATIENCE)

        assert b'<script type="module" src="page/live.js">' in asked("/").read()
        assert json.load(asked("/decisions")) == {"decisions": []}
        with pytest.raises(urllib.error.HTTPError, match="421"):
            asked("/decisions", Host="evil.example")
        with asked("/page/stream") as stream:
            assert stream.readline().startswith(b'data: {"type":"snapshot"')
            code, _, _ = scheduler.stop(signal.SIGTERM)
        assert code == 0


def test_an_emulated_cluster_shows_its_page_without_a_scheduler(server):
    def told():
        with urllib.request.urlopen(f"{server.said['page']}/page/stream", timeout=PATIENCE) as page:
            return json.loads(page.readline().removeprefix(b"data: "))["rows"]

    server.deploy("web", 1)
    server.until(lambda: [row["state"] for row in told()["pods"].values()] == ["waiting"])
    assert told()["nodes"].keys() == {"n2", "n3", "n4", "n5"}
    assert told()["status"]["now"]["role"] == "watching"
