"""By how much decisions say that they may be less than they could."""

from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.placing.batch_mip import PLACED, QOS
from kubedsm.optimizer.placing.immediate import immediate_schedule
from support import drawing
from support.placement_instances import drawn
from support.rule_instances import drawn_batch

NONE = Bounds(states=0, steps=0, loads=0)


def told(snapshot, batch, qos_targets=lambda _: QosTarget()):
    """What is said without tables, beside what is decided with them."""
    decisions = [
        immediate_schedule(snapshot, batch, qos_targets, Objective(), bounds=bounds)
        for bounds in (NONE, None)
    ]
    return *decisions, {(each.goal, each.of): each for each in decisions[0].certificates}


def check(short, best, certificates):
    """That no less can be had than is said, and that what is proven is said nothing of."""
    assert not any(each.proven for each in short.certificates)
    placed, qos = certificates.get((PLACED, "")), certificates.get((QOS, ""))
    if placed:
        assert placed.value == len(short.bindings)
        assert placed.bound >= len(best.bindings)
        assert not short.proof.placed
    if qos and len(short.bindings) == len(best.bindings):
        assert qos.value == short.score_after - short.score_before
        assert qos.bound >= best.score_after - best.score_before
        assert not short.proof.qos
    return bool(placed), bool(qos)


def test_what_may_be_missing_is_no_less_than_what_is():
    cases = map(drawn, drawing.drawn(range(500)))
    seen = [check(*told(case.snapshot, case.batch, case.qos_targets)) for case in cases]
    assert min(map(sum, zip(*seen, strict=True))) >= 1


def test_what_rules_among_pods_cost_may_be_missing():
    """Nobody has shown that they cost it."""
    seen = [check(*told(*drawn_batch(seed))) for seed in drawing.drawn(range(120))]
    assert min(map(sum, zip(*seen, strict=True))) >= 1
