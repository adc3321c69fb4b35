"""`kubedsm explain` without a dump: asked of the running scheduler, or read from the cluster."""

import json
import signal
import socket

import pytest

from kubedsm.kube.calls.writes import CONTROLLER
from support.command_line import kubedsm
from support.processes import Scheduler, fetch, free_port

pytestmark = pytest.mark.http
NAMES = "name one of pod, node, workload, migration, decision"


class Explaining(Scheduler):
    def __init__(self, server, port="0"):
        super().__init__(server, diagnostics=port)
        self.said = [json.loads(self.line())]
        while self.said[-1]["event"] != "connected":
            self.said.append(json.loads(self.line()))
        self.url = self.said[-1]["diagnostics"]

    def get(self, path):
        status, text = fetch(self.url + path)
        assert status == 200, text
        return json.loads(text)


@pytest.fixture(scope="module")
def scheduler(server):
    """Three pods on the paper's cluster, one that fits nowhere, and their Events."""
    server.configure()
    with Explaining(server) as running:
        server.deploy("web", 3)
        server.deploy("huge", 1, cpu="64")
        server.until(lambda: server.bound() == 3 and len(events(server)) == 4)
        yield running


def events(server):
    items = server.call("GET", "/api/v1/events")["items"]
    return [each for each in items if each["reportingComponent"] == CONTROLLER]


def names(server, app):
    return [pod["metadata"]["name"] for pod in server.pods(app)]


def explained(*arguments):
    done = kubedsm("explain", *arguments, "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_decisions_are_served_newest_first(server, scheduler):
    said = scheduler.get("/decisions")["decisions"]
    numbers = [decision["number"] for decision in said]
    assert numbers == sorted(numbers, reverse=True)
    placed = {p["pod"]: p["node"] for d in said for p in d["pods"]}
    assert len(placed) == 4
    assert scheduler.get("/decisions?limit=1")["decisions"] == said[:1]
    [huge] = names(server, "huge")
    for name in (huge, f"default/{huge}"):
        [decision] = scheduler.get(f"/decisions?pod={name}")["decisions"]
        [message] = [p["message"] for p in decision["pods"] if p["pod"] == f"default/{huge}"]
        assert message.startswith("0/4 nodes are available: 4 Insufficient cpu. No node")
    assert scheduler.get("/decisions?pod=nobody")["decisions"] == []


@pytest.mark.parametrize(
    ("path", "code", "says"),
    [
        ("/decisions?limit=0", 400, "limit: 0 is not between 1 and 512"),
        ("/decisions?limit=513", 400, "limit: 513 is not between 1 and 512"),
        ("/decisions?limit=many", 400, "limit: many is not between 1 and 512"),
        ("/decisions?limit=1&limit=2", 400, "limit: given twice"),
        ("/decisions?pod=", 400, "pod: empty"),
        ("/decisions?name=web", 400, "name: unknown, only pod, limit is accepted"),
        ("/decisions/pending?pod=web", 400, "pod: unknown, only nothing is accepted"),
        ("/decisions/explain", 400, NAMES),
        ("/decisions/explain?node=n9", 404, "no decision is recorded about node n9"),
        ("/decisions/explain?pod=a&node=b", 400, NAMES),
        ("/decisions/explain?pod=nobody", 404, "no decision is recorded about pod nobody"),
    ],
)
def test_bad_questions_get_one_line(scheduler, path, code, says):
    assert fetch(scheduler.url + path) == (code, f"{says}\n")


def test_nodes_workloads_migrations_and_decisions_are_explained_by_the_running_scheduler(
    server, scheduler
):
    at = ("--server", scheduler.url)
    [node] = explained("node/n5", *at)
    assert (node["node"], node["tier"], node["allocatable"]["cpu"]) == ("n5", "cloud", 22000)
    assert node["sentences"][0].startswith("n5 is a cloud node; it holds ")
    for name in (["deployment/web"], ["deploy", "web"], ["-n", "default", "deploy/web"]):
        [workload] = explained(*name, *at)
        assert (workload["workload"], workload["total"], workload["missing"]) == (
            *("default/web", 3, 0),
        )
    [decision] = explained("decision/1", *at)
    assert decision["number"] == 1
    done = kubedsm("explain", "migration/plan-9/x", *at, "--kubeconfig", server.kubeconfig)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"the scheduler at {scheduler.url} has no migration plan-9/x" in done.stderr
    cluster = ("--server", unused(), "--kubeconfig", server.kubeconfig)
    [same] = explained("node/n5", *cluster)
    assert same["sentences"][0] == node["sentences"][0]
    [same] = explained("deploy/web", *cluster)
    assert (same["edge"], same["wanted"]) == (workload["edge"], workload["wanted"])


def unused():
    return f"http://127.0.0.1:{free_port()}"


def test_the_running_scheduler_explains_and_without_it_the_events_do(
    server, scheduler, monkeypatch
):
    cluster = ("--server", unused(), "--kubeconfig", server.kubeconfig)
    name = names(server, "web")[0]
    [told] = explained(name, "--server", scheduler.url)
    assert (told["moves"], told["nodesAsOf"]) == ([], "decision")
    assert [(n["node"], n["feasible"]) for n in told["nodes"]] == [
        (n, True) for n in ("n2", "n3", "n4", "n5")
    ]
    shown = kubedsm("explain", name, "--server", scheduler.url).stdout
    assert f"{name} is on {told['chosen']}" in shown
    assert "least allocated" in shown
    [pending] = explained("--all", "--server", scheduler.url)
    assert pending["message"].startswith("0/4 nodes are available: 4 Insufficient cpu. No node")
    assert {n["rule"] for n in pending["nodes"]} == {"NodeResourcesFit"}
    [other] = explained(name, "--server", server.url, "--kubeconfig", server.kubeconfig)
    assert other["nodesAsOf"] == "now"  # another process answers there
    [said] = explained(name, *cluster)
    assert said.keys() == told.keys()
    assert (said["pod"], said["chosen"], said["bound"]) == (told["pod"], told["chosen"], True)
    assert said["summary"] == told["summary"]
    assert "edge share of default/web 0/3 -> 3/3, target 100%" in said["summary"]
    assert (said["nodesAsOf"], said["moves"]) == ("now", [])
    assert said["decidedAt"] >= told["decidedAt"]
    [waiting] = explained("--all", *cluster)
    assert (waiting["chosen"], waiting["bound"]) == (None, False)
    assert waiting["message"] == pending["message"]
    for url in (scheduler.url, server.url):  # told by the scheduler; read from the cluster
        given = ("explain", "--all", "-o", "name", *cluster, "--server", url, "-l")
        assert kubedsm(*given, "app=huge").stdout == f"pod/{waiting['pod']}\n"
        assert kubedsm(*given, "app=web").stdout == ""
    assert "as they are now" in kubedsm("explain", name, *cluster).stdout
    monkeypatch.setenv("KUBECONFIG", server.kubeconfig)
    done = kubedsm("explain", name, *cluster[:2])
    assert (
        done.stderr
        == f"kubedsm: no scheduler responds at {cluster[1]}; the cluster is read instead\n"
    )
    done = kubedsm("explain", "--all", "-n", "nosuch", *cluster)
    assert done.returncode == 1
    assert "there is no namespace nosuch" in done.stderr


def test_a_scheduler_that_knows_nothing_of_the_pod_is_not_the_end(server, scheduler):
    with Explaining(server) as another:
        another.until("standing by")
        name = names(server, "web")[0]
        assert fetch(f"{another.url}/decisions/explain?pod={name}")[0] == 404
        cluster = ("--server", another.url, "--kubeconfig", server.kubeconfig, "-o", "json")
        done = kubedsm("explain", name, *cluster)
        assert json.loads(done.stdout)["summary"]
        assert done.stderr == (
            f"kubedsm: the scheduler at {another.url} is a standby and remembers no decisions;"
            f" {socket.gethostname()} leads: ask that process for past decisions\n"
        )


def test_a_taken_port_is_no_reason_to_stop_and_is_free_at_the_end(server):
    with Explaining(server) as first:
        port = first.url.rpartition(":")[2]
        with Explaining(server, port) as second:
            *warnings, connected = second.said
            assert {each["level"] for each in warnings} == {"warning"}
            [warning] = [
                each for each in warnings if each["event"] == "diagnostics port unavailable"
            ]
            assert warning["address"] == f"127.0.0.1:{port}"
            assert connected["diagnostics"] == "none"
        code, _, err = first.stop(signal.SIGTERM)
        assert (code, err) == (0, "")
    with Explaining(server, port) as third:
        assert third.url == f"http://127.0.0.1:{port}"
