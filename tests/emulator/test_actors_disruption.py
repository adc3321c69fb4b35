import pytest

from kubedsm_lab.emulator.api.resources import EVENTS, POD_DISRUPTION_BUDGETS
from support.actor_world import NS, condition, emulated


def budget(world, name="web", app="web", **spec):
    spec = {"selector": {"matchLabels": {"app": app}}, **spec}
    world.create(POD_DISRUPTION_BUDGETS, name, spec=spec)


def status(world, name="web"):
    found = world.get(POD_DISRUPTION_BUDGETS, name)["status"]
    return (
        found["expectedPods"],
        found["desiredHealthy"],
        found["currentHealthy"],
        found["disruptionsAllowed"],
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"maxUnavailable": 1}, (4, 3, 4, 1)),
        ({"maxUnavailable": "30%"}, (4, 2, 4, 2)),
        ({"maxUnavailable": 9}, (4, 0, 4, 4)),
        ({"minAvailable": 3}, (4, 3, 4, 1)),
        ({"minAvailable": "60%"}, (4, 3, 4, 1)),
        ({"minAvailable": 9}, (4, 9, 4, 0)),
        ({}, (0, 0, 4, 0)),
    ],
)
async def test_what_a_budget_allows(spec, expected):
    async with emulated() as world:
        await world.bring_up(4)
        budget(world, **spec)
        await world.pass_time()
        assert status(world) == expected
        found = world.get(POD_DISRUPTION_BUDGETS, "web")
        assert found["status"]["observedGeneration"] == 1
        verdict = ("True", "SufficientPods") if expected[3] else ("False", "InsufficientPods")
        assert condition(found, "DisruptionAllowed") == verdict


async def test_tenants_are_warned_of_pods_without_a_controller():
    async with emulated() as world:
        await world.bring_up(2)
        budget(world, maxUnavailable=1)
        await world.pass_time(1.0)
        assert world.api.list(EVENTS, NS) == []
        world.pod("alone", labels={"app": "web"})
        await world.pass_time(1.0)
        (event,) = world.api.list(EVENTS, NS)
        assert (event["reason"], event["involvedObject"]["kind"]) == (
            "UnmanagedPods", "PodDisruptionBudget"
        )  # fmt: skip
        assert status(world) == (2, 1, 3, 2)
