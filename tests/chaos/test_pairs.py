"""Two faults in one run: the second strikes during the recovery from the first."""

import json
import random
from itertools import product

import pytest
from click.testing import CliRunner

from kubedsm_lab.chaos import pairs
from kubedsm_lab.chaos.faults import CALL, Fault
from kubedsm_lab.chaos.sweep import Report, Verdict, judge, list_next, replay
from kubedsm_lab.chaos.trace import RESTART, Injection
from kubedsm_lab.cli.chaos import chaos

LOST = Fault.parse("call:create-pods/binding:1:timeout")
OUTAGE = Fault.parse("call:get-pods:0:503/minute")
REFUSED = Fault.parse("call:create-pods/binding:1:503/minute")
CRASH = Fault.parse("call:create-pods/binding:4:crash-before")


def list_strikes(outcome):
    return [moment.point.split()[-1] for moment in outcome.history if moment.is_fault]


def test_a_second_fault_strikes_during_the_recovery_from_the_first():
    outcome = replay(Injection("burst", (LOST, OUTAGE)))
    first, *later = list_strikes(outcome)
    assert outcome.struck
    assert outcome.violations == ()
    assert (first, set(later)) == (str(LOST), {str(OUTAGE)})
    assert outcome.ended > min(m.at for m in outcome.history if m.tells_of(OUTAGE))


def test_a_crash_replaces_the_fault_that_lasts_at_the_same_request():
    outcome = replay(Injection("burst", (REFUSED, CRASH)))
    assert outcome.struck
    assert outcome.violations == ()
    assert any(moment.point == "ended" for moment in outcome.history)


def test_second_faults_are_those_that_strike_after_the_first():
    begun = replay(Injection("burst", (LOST,)))
    found = list(list_next(begun, nearest=1))
    assert set(found) < set(list_next(begun))
    assert {pair.faults[0] for pair in found} == {LOST}
    bystanders = {(m.point, m.number) for m in begun.history if m.about.startswith("beside")}
    assert bystanders
    assert not bystanders & {(pair.faults[1].point, pair.faults[1].at) for pair in list_next(begun)}
    for pair in random.Random(1).sample(found, 4):
        verdict = judge(pair)
        assert verdict.struck, pair.command
        assert verdict.violations == (), pair.command


def test_no_second_fault_strikes_after_the_restart_that_the_run_is_compared_with():
    quota = Fault.parse("world:pods.MODIFIED:1:quota/minute")
    begun = replay(Injection("burst", (quota,)))
    restarted = next(n for n, m in enumerate(begun.history) if m.point == RESTART)
    points = {(m.point, m.number) for m in begun.history[restarted:]}
    assert points
    assert not points & {(pair.faults[1].point, pair.faults[1].at) for pair in list_next(begun)}


def test_a_lost_bookmark_hides_nothing_and_the_run_ends_soon():
    late = Fault.parse("process:create-pods/binding:4:suspended-after")
    lost = Fault.parse("watch:configmaps.BOOKMARK:1:unseen")
    outcome = replay(Injection("burst", (late, lost)))
    assert outcome.violations == ()
    assert outcome.history[-1].at < 200


#: workload and faults
MENDED = (
    "cloud-to-edge call:get-deployments:3:crash-applied/minute",
    "preemption call:create-pods/eviction:0:html-200",
    "preemption call:create-pods/eviction:0:html-200/minute",
    # Reads by repeated evictions counted as reads before the migration, of more Ready pods.
    "budgeted call:create-pods/binding:2:timeout-applied-late",
    # Two replacements of one attempt that were late together counted as two attempts.
    "finalizer world:pods.ADDED:4:node-filled/minute",
    # A bind that waits at the gate, which is shut until the next renewal, until its pod is gone.
    "version-change process:create-pods/binding:4:hour-forth",
    # A pod whose affinity names a lost node does not fit on others.
    "slow-termination world:patch-pods.detach:0:node-lost",
    # A migration began again and again while binds of the workload were refused.
    "burst call:create-pods/binding:3:400/minute call:create-pods/binding:4:crash-applied",
    # An owner that a read did not find counted as deleted, though its other pods ran.
    "namespace-deleted call:get-deployments:2:html-200 call:get-replicasets:5:404/minute",
    # A pod was reattached to a ReplicaSet that was deleted since it was read, and stayed.
    (
        "owner-deleted call:create-pods/binding:5:503/minute"
        " process:patch-pods.reattach:0:suspended-before"
    ),
    # Migrations were paused for ever after a line of a watch that was no JSON.
    "single-replica call:patch-pods.detach:0:500/minute watch:configmaps.BOOKMARK:0:garbage",
    # The run was judged while a silent watch of nodes still hid a site.
    "site-demand watch:nodes.MODIFIED:4:silence world:create-pods/binding:9:node-cordoned",
    # The schedulers did not see that a node shrank, and were blamed for the pods on it.
    "configuration world:patch-pods.detach:0:node-shrunk watch:nodes.MODIFIED:0:unseen",
    # A pod was bound before its volume, by another scheduler.
    "volumes world:pods.MODIFIED:3:rolled-out world:pods.ADDED:1:pod-bound",
    # A pod waited for a claim whose event was held back until the next one.
    "volumes call:create-events:0:reset-applied watch:persistentvolumeclaims.ADDED:1:swap",
    # A bind that arrived late took the capacity that a victim had left.
    (
        "preemption process:create-pods/eviction.dry-run:0:terminated-after"
        " call:create-pods/binding:4:timeout-applied-late/minute"
    ),
    # A pause that began while the machine was suspended lasted as long again.
    (
        "long-quiet process:create-pods/binding:0:suspended-after"
        " process:list-configmaps.of-namespace:1:suspended-before"
    ),
    (
        "long-quiet process:list-namespaces:0:stopped-after"
        " process:create-pods/binding:1:stopped-after"
    ),
    # Two replicas that were paused at once did not serve again when one ran again.
    "leader-change process:update-leases:3:stopped-before process:watch-configmaps:3:stopped-after",
    "leader-change process:update-leases:3:hour-forth process:watch-configmaps:3:stopped-after",
    # Failures that followed each other did not double the back-off.
    "asked-to-move watch:pods.MODIFIED:13:stale-list call:list-pods:1:503",
)


@pytest.mark.parametrize("run", MENDED)
def test_faults_that_once_broke_a_promise_break_none(run):
    workload, *faults = run.split()
    verdict = judge(Injection(workload, tuple(map(Fault.parse, faults))))
    assert verdict.struck
    assert verdict.violations == ()


def test_a_trace_has_one_pair_of_each_class_that_it_reaches():
    traced = pairs.trace(Injection("burst", (LOST,)))
    classes = [pair.cell for pair in traced.pairs]
    assert len(classes) == len(set(classes)) > 30
    assert {first for first, _ in classes} == {("loss", "bind")}


def test_each_pair_of_classes_is_drawn_once_before_any_is_drawn_twice():
    firsts = [Fault(CALL, "get-pods", 0, what) for what in ("409", "500", "crash-after")]
    seconds = [Fault(CALL, "list-pods", n, what) for n in range(3) for what in ("409", "timeout")]
    found = [
        Injection(workload, couple)
        for workload in ("burst", "swap")
        for couple in product(firsts, seconds)
    ]
    drawn = pairs.draw_covering(found, 6, seed=0)
    report = Report([Verdict(injection, True, ()) for injection in drawn], found)
    assert len(report.classes) == 5
    assert report.covered == report.cells
    assert {(i.workload, i.cell[0]) for i in drawn} == {
        (workload, first.fault_class) for workload in ("burst", "swap") for first in firsts
    }
    assert "5 classes, 6 of 6 reachable pairs of classes" in report.summary
    assert len(set(pairs.draw_covering(found, 100, seed=0))) == len(found)


def shrink(monkeypatch, fails, injection):
    """Shrink a run, where the runs that satisfy `fails` break I7."""

    def judge_run(tried):
        return Verdict(tried, True, (f"I7: {tried.workload} has 1",) if fails(tried) else ())

    monkeypatch.setattr(pairs, "judge", judge_run)
    return pairs.shrink(judge_run(injection))


def test_a_pair_that_fails_is_reduced(monkeypatch):
    late = Fault.parse("call:create-events:3:500")
    couple = Injection("scaling", (LOST, late))
    monkeypatch.setattr(pairs, "WORKLOADS", ("burst", "scaling"))

    def reduce(fails):
        return shrink(monkeypatch, fails, couple)

    assert reduce(lambda run: LOST in run.faults).faults == (LOST,)
    alone = reduce(lambda run: run.faults[-1].cell == late.cell)
    assert [fault.cell for fault in alone.faults] == [late.cell]
    both = reduce(lambda run: len(run.faults) == 2)
    assert both.workload == "burst"
    assert [fault.cell for fault in both.faults] == [LOST.cell, late.cell]
    here = reduce(lambda run: len(run.faults) == 2 and run.workload == "scaling")
    assert here.faults[0] == LOST
    assert here.faults[1].at < late.at
    assert reduce(lambda run: run == couple) == couple


def test_two_faults_are_replayed_by_one_command():
    arguments = ["--workload", "burst", "--fault", str(LOST), "--fault", str(OUTAGE), "-o", "json"]
    done = CliRunner().invoke(chaos, arguments)
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["violations"] == []
    told = "\n".join(document["trace"])
    assert f"FAULT {LOST}" in told
    assert f"FAULT {OUTAGE}" in told
    refused = CliRunner().invoke(chaos, [*arguments, "--fault", str(LOST)])
    assert refused.exit_code == 2
    assert "finds no such call or event" in refused.output
