"""Two `kubedsm run` as processes of their own on one `kubedsm emulate`, with a short lease."""

import signal
import urllib.error
import urllib.request

import pytest

from support.processes import PATIENCE, Scheduler, Server

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
            server.until(lambda: said_at(f"{url}/readyz")[0] == 200)
            assert f"[+]leader-election ok: {leader} leads\n" in said_at(f"{url}/readyz")[1]
            first.process.kill()
            second = led_by_another(server, leader)
            server.until(lambda: said_at(f"{url}/readyz") == (200, "ok"))
            server.deploy("after-the-kill", 3)
            server.until(lambda: server.bound() == 3)
            with Scheduler(server, *SHORT) as third:
                third.until("standing by")
                other.process.send_signal(signal.SIGSTOP)
                server.deploy("after-the-stop", 3)
                leader = led_by_another(server, second)
                server.until(lambda: server.bound() == 6)
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


def said_at(url):
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as answer:
        with answer:
            return answer.code, answer.read().decode()


def test_without_the_namespace_of_the_lease_it_says_so(server):
    elsewhere = ("--leader-elect-resource-namespace", "nowhere")
    with Scheduler(server, *elsewhere) as scheduler:
        said = scheduler.until("not elected")
        assert said["error"] == "no lease nowhere/kubedsm: namespace nowhere is not there"
        assert scheduler.stop(signal.SIGTERM)[0] == 0
