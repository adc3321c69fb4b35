"""Two `kubedsm run` as processes of their own on one `kubedsm emulate`, with a short lease."""

import json
import signal
import urllib.error
import urllib.request

import pytest

from support.processes import PATIENCE, Process, Server

pytestmark = pytest.mark.http

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kubedsm/leases/kubedsm"
#: generous to a machine that is busy: a window of a fifth of it must be met
SHORT = (
    *("--leader-elect-lease-duration", "5s", "--leader-elect-renew-deadline", "4s"),
    *("--leader-elect-retry-period", "1s"),
)


@pytest.fixture(scope="module")
def server():
    with Server() as started:
        yield started


def scheduler(server, *arguments):
    return Process(
        *("run", "--kubeconfig", server.kubeconfig, "--diagnostics-port", "0", "-o", "json"),
        *SHORT,
        *arguments,
    )


def heard(process, event):
    """The first line of its log that is about that."""
    while line := process.line():
        said = json.loads(line)
        if said["event"] == event:
            return said
    raise AssertionError(f"ended without {event!r}: {process.process.stderr.read()}")


def holder(server):
    return server.call("GET", LEASE)["spec"]["holderIdentity"]


def led_by_another(server, identity):
    server.until(lambda: holder(server) not in ("", identity))
    return holder(server)


def test_a_scheduler_that_is_killed_or_paused_or_told_to_stop_is_replaced(server):
    """Meanwhile a standby is ready, and says who leads."""
    with scheduler(server) as first:
        leader = heard(first, "leading")["identity"]
        with scheduler(server, "--metrics-address", "127.0.0.1:0") as other:
            url = heard(other, "connected")["metrics"]
            assert heard(other, "standing by")["holder"] == leader
            server.until(lambda: said_at(f"{url}/readyz")[0] == 200)
            assert f"[+]leader-election ok: {leader} leads\n" in said_at(f"{url}/readyz")[1]
            first.process.kill()
            second = led_by_another(server, leader)
            server.until(lambda: said_at(f"{url}/readyz") == (200, "ok"))
            server.deploy("after-the-kill", 3)
            server.until(lambda: server.bound() == 3)
            with scheduler(server) as third:
                heard(third, "standing by")
                other.process.send_signal(signal.SIGSTOP)
                server.deploy("after-the-stop", 3)
                leader = led_by_another(server, second)
                server.until(lambda: server.bound() == 6)
                other.process.send_signal(signal.SIGCONT)
                _, err = other.process.communicate(timeout=60)
                assert other.process.returncode == 1
                assert err.strip().startswith("kubedsm: error: not leading any more: the lease")
                with scheduler(server) as fourth:
                    heard(fourth, "standing by")
                    assert third.stop(signal.SIGTERM)[0] == 0
                    led_by_another(server, leader)
                    assert heard(fourth, "leading")["transitions"] >= 1
                    assert fourth.stop(signal.SIGINT)[0] == 0
    assert holder(server) == ""


def said_at(url):
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as answer:
        with answer:
            return answer.code, answer.read().decode()


def test_without_the_namespace_of_the_lease_it_says_so(server):
    elsewhere = ("--leader-elect-resource-namespace", "nowhere")
    with Process(
        *("run", "--kubeconfig", server.kubeconfig, "--diagnostics-port", "0", "-o", "json"),
        *elsewhere,
    ) as scheduler:
        said = heard(scheduler, "not elected")
        assert said["error"] == "no lease nowhere/kubedsm: namespace nowhere is not there"
        assert scheduler.stop(signal.SIGTERM)[0] == 0
