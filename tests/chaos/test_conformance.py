"""Traces of chaos runs are behaviours of the model of plans."""

import attrs

from kubedsm.execution import placement_manager
from kubedsm_lab.chaos.exploration import states
from kubedsm_lab.chaos.exploration.model import explore_scenario
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


def recording(changes):
    def recorded(plan, event, now):
        after, effects = advance(plan, event, now)
        changes.add(change(plan, after))
        return after, effects

    return recorded


def test_each_change_of_a_plan_in_chaos_runs_is_one_of_the_model(monkeypatch):
    modelled, played = set(), set()
    monkeypatch.setattr(states, "advance", recording(modelled))
    for scenario in states.SCENARIOS[:2]:
        assert explore_scenario(attrs.evolve(scenario, most_faults=1)).violation == ""
    monkeypatch.setattr(placement_manager, "advance", recording(played))
    for fault in FAULTS:
        assert play(Injection("cloud-to-edge", (Fault.parse(fault),))).struck, fault
    assert len(played) > 20
    assert played - modelled == set()
