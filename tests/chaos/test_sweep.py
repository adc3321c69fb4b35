"""One in eighteen of `kubedsm chaos --short`, a third of it by default; .ci/run plays it whole."""

from functools import cache

import pytest

from kubedsm_lab.chaos.faults import Fault
from kubedsm_lab.chaos.sweep import Report, Verdict, choose_injections, judge, list_injections
from kubedsm_lab.chaos.trace import Injection
from kubedsm_lab.chaos.workloads import WORKLOADS
from kubedsm_lab.cli.chaos import SHORT

PARTS, BY_DEFAULT = 9, 3
SHARE = 18


@cache
def found():
    return list_injections(WORKLOADS, seed=0)


@cache
def planned():
    return choose_injections(found(), SHORT, seed=0)


@pytest.mark.parametrize(
    "part",
    [pytest.param(n, marks=() if n < BY_DEFAULT else pytest.mark.long) for n in range(PARTS)],
)
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


#: what once broke a promise, and may not be among those that are drawn
@pytest.mark.parametrize(
    ("workload", "fault"),
    [
        ("cloud-to-edge", "call:get-deployments:3:crash-applied/minute"),
        ("preemption", "call:create-pods/eviction:0:html-200"),
        ("preemption", "call:create-pods/eviction:0:html-200/minute"),
    ],
)
def test_what_was_mended_stays_so(workload, fault):
    verdict = judge(Injection(workload, Fault.parse(fault)))
    assert verdict.struck
    assert verdict.violations == ()
