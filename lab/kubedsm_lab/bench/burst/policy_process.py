"""A policy as a scheduler of its own: what `kubedsm run` does, metrics included, by another policy.

One pod at a time, bound as soon as it is decided on, as the schedulers do whose policies these are.
With `.batched` behind its name it decides on all pods that wait by then together.

`python -m kubedsm_lab.bench.burst.policy_process KUBECONFIG NAME` says `watching` when it knows the
cluster, and at its end its last words.
"""

import asyncio
import gc
import logging
import random
import signal
import sys
from pathlib import Path

import attrs
import msgspec
import structlog

from kubedsm.app.assembly import Runtime
from kubedsm.config.sections import BatchSettings
from kubedsm.config.settings import Configuration
from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.kube.client.port import Cluster
from kubedsm.observability.instruments import Instruments
from kubedsm.observability.measured_cluster import MeasuredCluster
from kubedsm.optimizer.policies.policy import Policy
from kubedsm.process.clock import Clock, SystemClock
from kubedsm.terminal.running import reserve_stdout
from kubedsm_lab.baselines.cache_scheduler import CacheScheduler
from kubedsm_lab.baselines.in_turn import InTurn
from kubedsm_lab.baselines.registry import POLICIES
from kubedsm_lab.baselines.score_cache import Why
from kubedsm_lab.bench.burst.result import CacheUse
from kubedsm_lab.replay.plain_bindings import PlainBindings

READY = b"watching"
BATCHED = ".batched"
#: no pod waits for others to come, and none is late: one burst is all there is to decide on
_BATCH = BatchSettings(idle=0.0, budget=60.0)


def policy_of(name: str) -> Policy:
    usual = Configuration()
    return POLICIES[name.removesuffix(BATCHED)](usual.promise, usual.objective_function)


def runtime_of(
    name: str, policy: Policy, cluster: Cluster, clock: Clock, rng: random.Random
) -> Runtime:
    """The scheduler of that name, for pods of that schedulerName."""
    batch = _BATCH if name.endswith(BATCHED) else attrs.evolve(_BATCH, size=1)
    configuration = Configuration(scheduler_name=name, batch=batch)
    instruments = Instruments(clock, name, host="")
    measured = MeasuredCluster(PlainBindings(cluster), clock, instruments.answered)
    return Runtime(measured, configuration, clock, rng, policy=policy, listener=instruments)


class _LastWords(msgspec.Struct):
    #: None of a policy without a score cache
    score_cache_looks: dict[Why, int] | None


def last_words(policy: Policy) -> bytes:
    """A line, for `cache_use` to read."""
    cache = policy.choose if isinstance(policy, InTurn) else None
    looks = cache.looks if isinstance(cache, CacheScheduler) else None
    return msgspec.json.encode(_LastWords(looks))


def cache_use(line: bytes) -> CacheUse | None:
    """What a scheduler's last words say of its score cache; None if they are of something else."""
    try:
        looks = msgspec.json.decode(line, type=_LastWords).score_cache_looks
    except msgspec.DecodeError:
        return None
    return None if looks is None else CacheUse(looks)


async def _run(kubeconfig: Path, name: str) -> None:
    """Until it is told to end."""
    clock, told = SystemClock(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with await KubernetesCluster.connect(kubeconfig) as server:
        policy = policy_of(name)
        runtime = runtime_of(name, policy, server, clock, random.Random())
        async with asyncio.TaskGroup() as tasks:
            parts = [tasks.create_task(part) for part in (runtime.run(), server.keep_warm(clock))]
            await runtime.synced.wait()
            # As `kubedsm run` does.
            gc.collect()
            gc.freeze()
            _say(READY)
            await told.wait()
            for part in parts:
                part.cancel()
    _say(last_words(policy))


def _say(line: bytes) -> None:
    """To who started us and waits for it."""
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    reserve_stdout()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    asyncio.run(_run(Path(sys.argv[1]), sys.argv[2]))
