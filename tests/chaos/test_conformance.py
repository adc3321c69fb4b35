"""Traces of chaos runs are behaviours of the model of plans."""

import attrs

from kubedsm.execution import placement_manager
from kubedsm_lab.chaos.exploration.model import PlanModel
from kubedsm_lab.chaos.exploration.search import explore
from kubedsm_lab.chaos.exploration.states import SCENARIOS, Interpreter, Setting
from kubedsm_lab.chaos.faults import Fault
from kubedsm_lab.chaos.trace import Injection, play
from plans.advance import advance

FAULTS = (
    "call:create-pods/binding:2:timeout-applied",
    "call:create-pods/binding:3:400",
    "call:patch-pods.detach:0:reset-applied",
    "call:patch-pods.detach:0:409",
    "call:create-pods/eviction:0:429-later",
    "call:create-pods/binding:2:crash-applied",
)


def change(before, after):
    """Kinds of the steps, and their states before and after an event."""
    kinds, was = zip(*((step.kind, step.state) for step in before.steps), strict=True)
    return kinds, was, tuple(step.state for step in after.steps)


class Recorder(Interpreter):
    def __init__(self):
        super().__init__()
        self.changes = set()

    def advance(self, plan, event):
        after, *rest = super().advance(plan, event)
        self.changes.add(change(plan, after))
        return after, *rest


def test_each_change_of_a_plan_in_chaos_runs_is_one_of_the_model(monkeypatch):
    recorder = Recorder()
    for scenario in SCENARIOS[:2]:
        few = attrs.evolve(scenario, most_faults=1)
        assert explore(PlanModel(Setting(few, recorder))).violation == ""
    played = set()

    def recorded(plan, event, now):
        after, effects = advance(plan, event, now)
        played.add(change(plan, after))
        return after, effects

    monkeypatch.setattr(placement_manager, "advance", recorded)
    for fault in FAULTS:
        assert play(Injection("cloud-to-edge", (Fault.parse(fault),))).struck, fault
    assert len(played) > 20
    assert played - recorder.changes == set()
