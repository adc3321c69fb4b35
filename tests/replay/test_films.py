"""Films of runs: taken between moments, so that no run goes another way for being filmed."""

import itertools
import json

import attrs
import pytest

from kubedsm_lab.replay.films import PICTURE
from kubedsm_lab.replay.runner import carry_out
from kubedsm_lab.replay.world import Run, Setup
from loadgen.generators import normal

SCENARIO = normal(1.5, 0.4, seed=1, cycles=3)


def filmed(policy):
    return carry_out(Run("short", SCENARIO, policy, 1, Setup(), filmed=True))


def messages(outcome):
    return [json.loads(line) for line in outcome.film.splitlines()]


@pytest.mark.parametrize("policy", ["kubedsm", "kube-scheduler"])
def test_a_run_goes_the_same_way_when_it_is_filmed(policy):
    outcome = filmed(policy)
    assert outcome.film
    run = Run("short", SCENARIO, policy, 1, Setup())
    assert attrs.evolve(outcome, film=b"") == carry_out(run)


def test_a_film_goes_from_the_beginning_of_the_scenario_to_its_end():
    first, *rest = messages(filmed("kubedsm"))
    assert (first["type"], {each["type"] for each in rest}) == ("snapshot", {"changes"})
    assert set(first["rows"]["workloads"]) == {f"default/{name}" for name in "abcd"}
    versions = [each["version"] for each in (first, *rest)]
    assert versions == list(range(versions[0], versions[0] + len(versions)))
    moments = [each["at"] for each in (first, *rest)]
    assert all(b - a > PICTURE - 0.01 for a, b in itertools.pairwise(moments[:-1]))
    assert moments[-1] - moments[0] == pytest.approx(SCENARIO.duration)


def test_moves_are_seen_step_by_step():
    rows = [
        row
        for each in messages(filmed("objective.evenness=0"))
        for row in each["rows"].get("moves", {}).values()
    ]
    assert {"moving", "completed"} <= {row["state"] for row in rows if row}
    assert len({row["step"].partition(" ")[0] for row in rows if row and row.get("step")}) > 1


def test_the_same_run_is_the_same_film():
    outcome = filmed("kubedsm")
    assert outcome.film == filmed("kubedsm").film
    # In another process sets have another order.
    tables = [rows for each in messages(outcome) for rows in each["rows"].values()]
    assert all(list(rows) == sorted(rows) for rows in tables)
