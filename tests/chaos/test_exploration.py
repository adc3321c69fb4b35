"""Small part of `kubedsm chaos --explore`, seeded bugs that it must find, and runs it must know."""

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from kubedsm.execution import placement_manager
from kubedsm_lab.chaos.exploration import states
from kubedsm_lab.chaos.exploration.model import explore_scenario
from kubedsm_lab.chaos.exploration.search import Edge, explore
from kubedsm_lab.chaos.exploration.states import SCENARIOS
from kubedsm_lab.chaos.faults import Fault
from kubedsm_lab.chaos.trace import Injection, play
from plans.advance import advance

ROOT = Path(__file__).parents[2]
MUTANTS = runpy.run_path(str(ROOT / "tests" / "mutants" / "__main__.py"))
SEEDED = sorted((ROOT / "tests" / "mutants" / "plans").glob("*.patch"))
#: a detour of two migrations, with any failure: found in 20,000 states
SLOW = "second-leg-early"
OF = {scenario.name: scenario for scenario in SCENARIOS}
#: prints the first violation, in few faults
EXPLORE = """
import attrs
from kubedsm_lab.chaos.exploration.model import explore_scenario
from kubedsm_lab.chaos.exploration.states import SCENARIOS
for scenario in SCENARIOS[:int({number})]:
    few = None if scenario.name == "bind" else 1
    violation = explore_scenario(attrs.evolve(scenario, most_faults=few)).violation
    if violation:
        print(violation)
        break
"""


@attrs.frozen
class Counter:
    """Model that counts to three, `by` some steps; the clock ticks at each."""

    name = "counter"
    steps: dict

    def list_initial(self):
        return [0]

    def list_edges(self, state):
        for target in self.steps.get(state, ()):
            yield Edge(f"to {target}", target, ["too far"] * (target > 3), tick=True)

    def is_quiet(self, state):
        return state == 3

    def list_obligations(self, state):
        return ["counting"] if state < 3 else []


@pytest.mark.parametrize(
    ("steps", "violation", "trace"),
    [
        ({0: [1, 2], 1: [3], 2: [3]}, "", ()),
        ({0: [1], 1: [2, 4]}, "too far", ("begin", "to 1", "to 4")),
        ({0: [1, 3], 1: [1]}, "liveness: the system never comes to rest", ("begin", "to 1")),
        ({0: [1], 1: [2, 3], 2: [0]}, "liveness: counting never ends", ("begin",)),
    ],
)
def test_broken_safety_and_liveness_are_found(steps, violation, trace):
    result = explore(Counter(steps))
    assert (result.violation, result.trace) == (violation, trace)
    if not violation:
        assert (result.states, result.transitions) == (4, 4)


@pytest.mark.parametrize(
    ("name", "faults", "states"),
    [("bind", None, 1_000), ("surge", 0, 1_000), ("recreate", 1, 2_000)],
)
def test_no_order_of_events_breaks_a_plan(name, faults, states):
    result = explore_scenario(attrs.evolve(OF[name], most_faults=faults))
    assert result.violation == ""
    assert result.states > states


@pytest.mark.long
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_no_order_of_events_breaks_any_plan(scenario):
    assert explore_scenario(scenario).violation == ""


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.long] * (path.stem == SLOW))
        for path in SEEDED
    ],
)
def test_each_seeded_bug_in_plans_is_found(patch, tmp_path):
    mutant = MUTANTS["Mutant"].read(patch)
    shutil.copytree(ROOT / "plans", tmp_path / "plans")
    file = tmp_path / mutant.path.relative_to(ROOT)
    file.write_text(mutant.applied(file.read_text()))
    done = subprocess.run(
        [sys.executable, "-c", EXPLORE.format(number=4 if patch.stem == SLOW else 2)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'lab'}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout


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
