"""The burst of the rotating-score-cache paper: how soon pods are bound, and how even they lie."""

import asyncio

import msgspec
import orjson
import structlog

from kubedsm.optimizer.policies.registry import CACHE_SCHEDULER, KUBEDSM, POLICIES
from kubedsm_lab.bench.burst import contenders
from kubedsm_lab.bench.burst.bare_loop import FOREVER
from kubedsm_lab.bench.burst.policy_process import BATCHED
from kubedsm_lab.bench.burst.result import sections, standings
from kubedsm_lab.bench.burst.run import Plan
from kubedsm_lab.comparison.experiment import Asked, Experiment, Found, Part, of_titles

_PODS, _PATIENCE, _IMAGE = 200, 120.0, "pause"
_ROUNDS, _LOOK = 11, 3
#: of its tables; the others have a line for each policy and figure
SHOWN = ("Ratios", "Beside what was published", "Fullest nodes", "Score caches")
#: given all pods that wait at once, as no scheduler of the papers is: what is most in their favour
_BATCHED = tuple(f"{name}{BATCHED}" for name in ("kube-scheduler", CACHE_SCHEDULER))
#: who has a look; the others are variants of these, or place by tiers, which there are none of
_POLICIES = (KUBEDSM, "kube-scheduler", CACHE_SCHEDULER, *_BATCHED, "random")


def _run(asked: Asked) -> Found:
    plan = Plan(
        schedulers=asked.policies or ((*POLICIES, *_BATCHED) if asked.full else _POLICIES),
        pods=_PODS,
        rounds=_ROUNDS if asked.full else _LOOK,
        patience=_PATIENCE,
        image=_IMAGE,
    )
    result = asyncio.run(contenders.run(plan, structlog.get_logger().warning, FOREVER))
    tables = [one for one in of_titles(sections(result), SHOWN) if one.table[1]]
    results = msgspec.Raw(orjson.dumps(result.as_json()))
    return Found(Part(asked.full, result.about, standings(result), tables, results))


BURST = Experiment("burst", "A burst of 200 pods", "emulated", {}, _run, tuple(POLICIES) + _BATCHED)
