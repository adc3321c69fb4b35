"""`kubedsm run` as a process: its page, its worker, others beside it, and its end."""

import json
import signal
import time
import urllib.request

import pytest

from kubedsm.kube.calls.writes import CONTROLLER
from kubedsm_lab.emulator.paper import node
from support.command_line import kubedsm
from support.processes import PATIENCE, Scheduler, Server, fetch, write

pytestmark = pytest.mark.http

CLOUD_ONLY = "nodes: [{name: c1, tier: cloud, cpu: 8, memory: 8Gi}]"
#: a move that is under way stays so
ENDLESS = """
apiVersion: kubedsm.io/v1alpha1
kind: KubeDSMConfiguration
suggester: {period: 200ms}
migration: {drainDelay: 1h, deadline: 2h}
"""
MIGRATING = "kubedsm.io/migrating"


@pytest.fixture(scope="module")
def server():
    with Server("--page", "--page-address", "127.0.0.1:0") as started:
        yield started


@pytest.fixture
def cloud(tmp_path):
    """With Ready pods in the cloud, and room on the edge."""
    with Server("--cluster", write(tmp_path, "cluster.yaml", CLOUD_ONLY)) as server:
        server.deploy("web", 2)
        server.until(lambda: len(server.pods()) == 2)
        for pod in server.pods():
            server.bind(pod, "c1")
        server.until(lambda: len(server.ready()) == 2)
        server.call("POST", "/api/v1/nodes", node("e1", "edge", "4", "8Gi"))
        yield server


def scheduler(server, tmp_path):
    path = write(tmp_path, "endless.yaml", ENDLESS)
    quick = ("--leader-elect-retry-period", "1s", "--grace-period", "1h")
    return Scheduler(server, "--config", path, *quick)


def moving(server):
    return [pod for pod in server.pods() if MIGRATING in pod["metadata"]["labels"]]


def test_a_second_signal_ends_at_once_what_the_first_would_wait_for(cloud, tmp_path):
    with scheduler(cloud, tmp_path) as acting:
        cloud.until(lambda: moving(cloud))
        for pause in (0.02, 0.5):  # as `timeout` does: to the process, and to its process group
            acting.process.send_signal(signal.SIGTERM)
            time.sleep(pause)
        assert acting.process.poll() is None
        code, out, err = acting.stop(signal.SIGINT)
    assert code == 0
    said = [json.loads(line) for line in out.splitlines()][-1]
    assert (said["event"], said["why"]) == ("stopped", "immediate stop requested")
    assert (said["signal"], said["migrations_completed"]) == ("SIGTERM", 0)
    assert "Traceback" not in err
    assert moving(cloud)


OFF = "{suggester: {mode: 'off'}, migration: {drainDelay: 0s}}"
QUICK = ("--leader-elect-retry-period", "1s")
LEASES = "/apis/coordination.k8s.io/v1/leases"


def test_first_nothing_is_done_then_the_leader_does_what_it_is_asked_for(tmp_path):
    config = write(tmp_path, "off.yaml", OFF)
    with Server("--cluster", write(tmp_path, "cluster.yaml", CLOUD_ONLY)) as server:
        server.deploy("web", 1)
        with Scheduler(server, "--config", config, *QUICK, "--dry-run") as dry:
            at = dry.until("connected")["diagnostics"]
            server.until(lambda: "would bind" in dry.line())
            assert server.bound() == 0
            assert server.call("GET", LEASES)["items"] == []
            reported = server.call("GET", "/api/v1/events")["items"]
            assert {each["reportingComponent"] for each in reported}.isdisjoint({CONTROLLER})
            with Scheduler(server, "--config", config, *QUICK) as leader:
                leader.until("leading")
                server.until(lambda: server.ready() == ["c1"])
                server.call("POST", "/api/v1/nodes", node("e1", "edge", "4", "8Gi"))
                apply = ("suggest", "--apply", "--kubeconfig", server.kubeconfig)
                refused = kubedsm(*apply, "--server", at)
                assert (refused.returncode, server.ready()) == (1, ["c1"])
                assert "is a dry run, which accepts no requests" in refused.stderr
                done = kubedsm(*apply)
                assert done.returncode == 0, done.stderr
                *_, taken, moved = done.stderr.splitlines()
                assert taken.startswith("kubedsm: the running scheduler has accepted request ")
                assert moved.endswith(" to e1 completed")
                assert server.ready() == ["e1"]
            code, _, _ = dry.stop(signal.SIGTERM)
            assert code == 0


def test_it_is_served_beside_the_decisions_and_ends_with_its_viewers(server):
    with Scheduler(server, "--leader-elect=false", "--page") as scheduler:
        said = scheduler.until("connected")
        page = said["page"]
        assert page == said["diagnostics"]
        assert '<script type="module" src="page/live.js">' in fetch(page)[1]
        assert json.loads(fetch(f"{page}/decisions")[1]) == {"decisions": []}
        assert fetch(f"{page}/decisions", Host="evil.example")[0] == 421
        with urllib.request.urlopen(f"{page}/page/stream", timeout=PATIENCE) as stream:
            assert stream.readline().startswith(b'data: {"type":"snapshot"')
            code, _, _ = scheduler.stop(signal.SIGTERM)
        assert code == 0


def test_an_emulated_cluster_shows_its_page_without_a_scheduler(server):
    def told():
        with urllib.request.urlopen(f"{server.said['page']}/page/stream", timeout=PATIENCE) as page:
            return json.loads(page.readline().removeprefix(b"data: "))["rows"]

    server.deploy("shown", 1)
    server.until(lambda: "waiting" in [row["state"] for row in told()["pods"].values()])
    assert told()["nodes"].keys() == {"n2", "n3", "n4", "n5"}
    assert told()["status"]["now"]["role"] == "watching"


LEASE = "/apis/coordination.k8s.io/v1/namespaces/kubedsm/leases/kubedsm"
#: generous to a machine that is busy: a window of a fifth of it must be met
SHORT = (
    *("--leader-elect-lease-duration", "5s", "--leader-elect-renew-deadline", "4s"),
    *("--leader-elect-retry-period", "1s"),
)


def holder(server):
    return server.call("GET", LEASE)["spec"]["holderIdentity"]


def led_by_another(server, identity):
    server.until(lambda: holder(server) not in ("", identity))
    return holder(server)


def test_a_scheduler_that_is_killed_or_paused_or_told_to_stop_is_replaced(server):
    """Meanwhile a standby is ready, and says who leads."""
    with Scheduler(server, *SHORT) as first:
        leader = first.until("leading")["identity"]
        with Scheduler(server, *SHORT, "--metrics-address", "127.0.0.1:0") as other:
            url = other.until("connected")["metrics"]
            assert other.until("standing by")["holder"] == leader
            server.until(lambda: fetch(f"{url}/readyz")[0] == 200)
            assert f"[+]leader-election ok: {leader} leads\n" in fetch(f"{url}/readyz")[1]
            first.process.kill()
            second = led_by_another(server, leader)
            server.until(lambda: fetch(f"{url}/readyz") == (200, "ok"))
            server.deploy("after-the-kill", 3)
            server.until(lambda: server.bound("after-the-kill") == 3)
            with Scheduler(server, *SHORT) as third:
                third.until("standing by")
                other.process.send_signal(signal.SIGSTOP)
                server.deploy("after-the-stop", 3)
                leader = led_by_another(server, second)
                server.until(lambda: server.bound("after-the-stop") == 3)
                other.process.send_signal(signal.SIGCONT)
                _, err = other.process.communicate(timeout=60)
                assert other.process.returncode == 1
                assert err.strip().startswith("kubedsm: error: not leading any more: the lease")
                with Scheduler(server, *SHORT) as fourth:
                    fourth.until("standing by")
                    assert third.stop(signal.SIGTERM)[0] == 0
                    led_by_another(server, leader)
                    assert fourth.until("leading")["transitions"] >= 1
                    assert fourth.stop(signal.SIGINT)[0] == 0
    assert holder(server) == ""


def test_without_the_namespace_of_the_lease_it_says_so(server):
    elsewhere = ("--leader-elect-resource-namespace", "nowhere")
    with Scheduler(server, *elsewhere) as scheduler:
        said = scheduler.until("not elected")
        assert said["error"] == "no lease nowhere/kubedsm: namespace nowhere is not there"
        assert scheduler.stop(signal.SIGTERM)[0] == 0
