"""Requests for each pod bound, counted from an audit log."""

import asyncio
import json
import os
import signal
from datetime import UTC, datetime

import aiohttp
import pytest
from click.testing import CliRunner

from kubedsm.terminal.problems import Problem
from kubedsm_lab.bench import requests
from kubedsm_lab.bench.requests import build_report, read_log, summarize
from kubedsm_lab.cli.bench import bench
from kubedsm_lab.emulator.http.audit_log import AuditLog
from kubedsm_lab.emulator.http.routes import ApiResponse
from kubedsm_lab.emulator.http.server import HttpFront


def line(second, verb, resource, agent="kube-scheduler/v1.35.0", code=201, **more):
    plural, _, part = resource.partition("/")
    at = datetime.fromtimestamp(second, UTC).isoformat()
    event = {
        "stage": "ResponseComplete",
        "verb": verb,
        "userAgent": agent,
        "objectRef": {"resource": plural, "subresource": part},
        "responseStatus": {"code": code},
        "requestReceivedTimestamp": at,
        "stageTimestamp": at,
    }
    return json.dumps(event | more)


def log_of(tmp_path, *lines):
    path = tmp_path / "audit.log"
    path.write_text("".join(f"{each}\n" for each in lines))
    return path


def test_requests_count_from_the_first_bind_to_the_last(tmp_path):
    path = log_of(
        tmp_path,
        line(0, "create", "events"),
        line(1, "create", "pods/binding"),
        line(2, "create", "events", responseObject={"a": 1}),
        line(2, "update", "leases"),
        line(3, "create", "pods/binding"),
        line(3, "create", "pods/binding", code=409),
        line(3, "create", "pods/binding", stage="RequestReceived"),
        line(7, "create", "events"),
        line(8, "get", "pods", agent="kubectl/v1.35.0"),
        line(9, "create", "pods/binding", agent="kubedsm/1.0"),
    )
    first, second = summarize(read_log(path))
    assert (first.agent, first.bound, first.seconds) == ("kube-scheduler/v1.35.0", 2, 2.0)
    assert [(each.kind, each.during, each.after) for each in first.usage] == [
        ("create events", 1, 1),
        ("create pods/binding", 3, 0),
        ("update leases", 1, 0),
    ]
    assert first.usage[0].size == len('{"a": 1}')
    assert first.per_pod == 2.0
    assert first.events_after == 4.0
    assert (second.agent, second.bound, second.per_pod) == ("kubedsm/1.0", 1, 1.0)


@pytest.mark.parametrize("text", ["no json", "{}"])
def test_a_line_that_is_no_audit_event_is_named(tmp_path, text):
    path = log_of(tmp_path, line(1, "create", "pods/binding"), text)
    with pytest.raises(Problem, match=r"audit\.log, line 2: not a line of audit\.k8s\.io/v1: "):
        list(read_log(path))


def test_a_log_without_binds_is_refused(tmp_path):
    found = summarize(read_log(log_of(tmp_path, line(1, "create", "events"))))
    with pytest.raises(Problem, match="no successful create of pods/binding"):
        build_report(found, emulated=False)


class Created:
    def handle(self, request):
        return ApiResponse(201, b"{}")


async def test_the_emulated_api_server_logs_each_request(tmp_path):
    path = tmp_path / "audit.log"
    with path.open("ab") as file:
        async with (
            HttpFront(Created(), audit=AuditLog(file)) as front,
            aiohttp.ClientSession() as session,
        ):
            url = f"{front.url}/api/v1/namespaces/shop/pods/web/binding"
            await session.post(url, data=b"body", headers={"User-Agent": "tester"})
    [event] = read_log(path)
    assert (event.kind, event.user_agent, event.size) == ("create pods/binding", "tester", 6)
    assert event.is_bind


def test_sigterm_ends_a_benchmark_with_its_processes(monkeypatch):
    ended = []

    async def record(_):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(10)
        finally:  # as `emulated_cluster` and `Scheduler` end their processes
            ended.append("emulate")

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    monkeypatch.setattr(requests, "record_burst", record)
    assert CliRunner().invoke(bench, ["requests"]).exit_code == 1
    assert ended == ["emulate"]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
