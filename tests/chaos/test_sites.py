"""Faults are put into every function that asks an API server, and a sweep has each kind once."""

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

import kubedsm.kube
from kubedsm.kube.client.port import Request
from kubedsm_lab.chaos.faults import event_of, injection_point_of
from kubedsm_lab.chaos.process import Process
from kubedsm_lab.chaos.sweep import Report, Verdict, choose_injections, judge, list_injections
from kubedsm_lab.chaos.trace import Injection, play
from kubedsm_lab.chaos.workloads import WORKLOADS
from kubedsm_lab.cli.chaos import SHORT
from support.chaos_gate import BUGS, MISSED, NOTICED

CLUSTER = Path(kubedsm.kube.__file__).parent
MADE_BY = ("calls/*.py", "watching/*.py", "joining.py")
#: modules whose requests are those of commands, and of no scheduler
OF_COMMANDS = {"adoption.py", "inspection.py"}
#: names of the functions that send a request
SENDING = {"request", "stream", "send", "_patch_pod"}

#: what no run without a fault asks, and why
NOT_ASKED = {
    "annotate": "labels pods whose tier changed after their bind, which no workload here has",
    "namespace_uid": "commands read it once, to find out which cluster a scheduler serves",
    "get_pod": "only read when the answer to a bind got lost; a lasting fault meets it",
    "get_config_map": "read before a scheduler is there, by `kubedsm run`, which ends if it fails",
    "create_config_map": "`kubedsm suggest --apply` asks it, no scheduler",
    "put_request": "`kubedsm suggest --apply` asks it, no scheduler",
    "count_event": "only said of what happens again, mostly after a fault; a lasting one meets it",
    "pod_address": "the page of a standby asks it, to send its viewers to the leader",
    "reserve_volume": "of volumes that exist before their claims, as in no workload here",
    "get_claim": "only read when a volume is not bound in time",
    "get_volume": "as `get_claim`",
    "read_pull_spec": "no workload here has images that are pulled before a migration",
    "has_pulled": "as `read_pull_spec`",
    "create_pull_pod": "as `read_pull_spec`",
    "read": "of the Lease: only with an election",
    "write": "of the Lease: only with an election",
}


def asking(path):
    """Yield the functions of a module that send a request themselves."""
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.AsyncFunctionDef):
            calls = {call.func for call in ast.walk(function) if isinstance(call, ast.Call)}
            names = {getattr(called, "attr", getattr(called, "id", None)) for called in calls}
            if names & SENDING:
                yield function.name


def asked_in(monkeypatch, workload):
    asked = set()

    def noting(method, patching):
        original = getattr(Process, method)

        def noted(self, request, *, timeout):
            frame = sys._getframe(1)
            while frame is not None:
                if Path(frame.f_code.co_filename).is_relative_to(CLUSTER):
                    asked.add(frame.f_code.co_name)
                frame = frame.f_back
            return original(self, request, timeout=timeout)

        patching.setattr(Process, method, noted)

    with monkeypatch.context() as patching:
        noting("request", patching)
        noting("stream", patching)
        play(Injection(workload))
    return asked


@pytest.mark.long
def test_each_function_that_asks_is_passed_by_a_run_without_a_fault(monkeypatch):
    paths = {path for made in MADE_BY for path in CLUSTER.glob(made)}
    functions = {name for path in paths if path.name not in OF_COMMANDS for name in asking(path)}
    assert functions >= {"get_pod", "bind", "detach", "evict", "create_event"}
    asked = set().union(*(asked_in(monkeypatch, workload) for workload in WORKLOADS))
    assert functions - asked == NOT_ASKED.keys() - asked


@pytest.mark.parametrize(
    ("request_", "point"),
    [
        (Request("GET", "/version"), "get-version"),
        (Request("GET", "/api/v1/pods", {"limit": "1"}), "list-pods.greeting"),
        (Request("GET", "/api/v1/pods", {"limit": "500"}), "list-pods"),
        (Request("GET", "/api/v1/pods", {"watch": "1"}), "watch-pods"),
        (Request("GET", "/api/v1/namespaces/a/pods"), "list-pods.of-namespace"),
        (Request("POST", "/api/v1/namespaces/a/pods/b/binding"), "create-pods/binding"),
    ],
)
def test_calls_that_are_alike_have_one_name(request_, point):
    assert injection_point_of(request_)[0] == point


def test_an_event_is_named_by_its_kind():
    line = b'{"type": "ADDED", "object": {"metadata": {"namespace": "a", "name": "b"}}}'
    event = event_of(Request("GET", "/api/v1/pods", {"watch": "1"}), line)
    assert (event.point, event.about) == ("pods.ADDED", "a/b")


PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "reliability.md"
PARTS = 9
SHARE = 18


@cache
def found():
    return list_injections(WORKLOADS, seed=0)


@cache
def planned():
    return choose_injections(found(), SHORT, seed=0)


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_no_fault_breaks_a_promise(part):
    verdicts = [judge(injection) for injection in planned()[::SHARE][part::PARTS]]
    assert [v for v in verdicts if v.violations or not v.struck] == []


@pytest.mark.long
def test_every_fault_strikes_at_every_kind_of_call_and_event():
    report = Report(
        [Verdict(injection, struck=True, violations=()) for injection in planned()], found()
    )
    assert len(set(planned())) == SHORT
    assert report.covered == report.cells


@pytest.mark.long
def test_the_page_of_reliability_has_about_the_numbers_of_injections_and_kinds():
    said = re.search(r"about ([\d,]+) injections with seed 0, of ([\d,]+) kinds", PAGE.read_text())
    numbers = [int(number.replace(",", "")) for number in said.groups()]
    assert numbers == pytest.approx([len(found()), len(Report([], found()).cells)], rel=0.03)


def test_the_page_of_reliability_has_the_numbers_of_bugs_that_chaos_runs_notice():
    said = re.search(
        r"puts (\d+) seeded bugs into.*\s(\d+) raise an alarm", PAGE.read_text(), re.DOTALL
    )
    assert [int(number) for number in said.groups()] == [len(BUGS), len(NOTICED)]
    assert len(BUGS) == len(NOTICED) + len(MISSED)
    assert len(NOTICED) >= 25
