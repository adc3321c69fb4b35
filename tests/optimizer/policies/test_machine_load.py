"""Work is counted: idle and busy machines decide the same, or the decision says otherwise."""

import attrs
import pytest

from kubedsm.model.deadline import STEPS_PER_SECOND, Deadline
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.solvers.available import Highs
from support.placement_instances import drawn as placement_instance
from support.rule_instances import drawn_batch
from support.suggest_instances import drawn_case

POLICY = KubeDSM(lambda _: QosTarget(), Objective())
#: Seconds of a look at the clock on an idle machine, and the time limit.
IDLE, SECONDS = 1e-4, 2.0


def on_machine(slower, seconds=SECONDS, work=None):
    """The deadline on a machine that is so many times slower; `work`: seconds of work at most."""
    looks = iter(range(10**9))
    now = lambda: next(looks) * IDLE * slower  # noqa: E731
    return Deadline.within(seconds, now, 1 / 3 if work is None else work / seconds)


def drawn_decisions():
    """Functions from a deadline to a decision: of plain batches, ruled batches and suggestions."""
    for seed in range(8):
        case = placement_instance(seed, most=9)
        policy = attrs.evolve(POLICY, qos_targets=case.qos_targets)
        yield lambda d, p=policy, c=case: p.decide_batch(c.snapshot, c.batch, d)
        shot, waiting = drawn_batch(seed)
        yield lambda d, s=shot, w=waiting: POLICY.decide_batch(s, w, d)
        of = drawn_case(seed)
        mover = KubeDSM(of.qos_targets, of.objective, of.limits)
        yield lambda d, p=mover, c=of: p.suggest(c.snapshot, lambda _: None, d)


@pytest.mark.parametrize("part", [0.1, 0.5, 2.0])
def test_ten_times_slower_machines_decide_the_same(part):
    """Also where the work limit ends the search: after some part of the whole work."""
    limited = 0
    for decide in drawn_decisions():
        whole = Deadline()
        decide(whole)
        work = max(1, whole.meter.steps) * part / STEPS_PER_SECOND
        deadlines = [on_machine(slower, work=work) for slower in (1, 10)]
        idle, busy = map(decide, deadlines)
        assert idle == busy
        assert not busy.out_of_time
        assert deadlines[0].meter.steps == deadlines[1].meter.steps
        limited += deadlines[0].passed
    assert (limited > 5) == (part < 1)


def test_a_decision_says_that_the_time_limit_passed_first():
    struck = 0
    for decide in drawn_decisions():
        deadline = on_machine(1, seconds=IDLE / 2)
        decided = decide(deadline)
        assert decided.out_of_time == deadline.meter.out_of_time
        struck += decided.out_of_time
    assert struck > 10


def test_a_part_of_a_deadline_counts_for_the_whole():
    deadline = Deadline.within(6.0, lambda: 1.0)
    part = deadline.part(0.5)
    assert part.seconds == pytest.approx(1.0)
    assert part.spend(STEPS_PER_SECOND)
    assert not deadline.passed
    assert deadline.left == pytest.approx(1.0)
    assert deadline.spend(STEPS_PER_SECOND)


def test_solver_work_counts_and_does_not_depend_on_the_time_limit():
    case = placement_instance(3, most=60)
    policy = attrs.evolve(POLICY, qos_targets=case.qos_targets, solver=Highs(3.0))
    deadlines = [Deadline.within(seconds, lambda: 60.0, 0.05 / seconds) for seconds in (3, 30)]
    first, second = (policy.decide_batch(case.snapshot, case.batch, d) for d in deadlines)
    assert first == second
    assert deadlines[0].meter.steps == deadlines[1].meter.steps
