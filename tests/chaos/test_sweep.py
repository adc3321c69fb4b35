"""Part of `kubedsm chaos --short`, which .ci/run plays whole."""

import re
from functools import cache
from pathlib import Path

import pytest

from kubedsm_lab.chaos.sweep import Report, Verdict, choose_injections, judge, list_injections
from kubedsm_lab.chaos.workloads import WORKLOADS
from kubedsm_lab.cli.chaos import SHORT
from support.chaos_gate import BUGS, MISSED, NOTICED

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
