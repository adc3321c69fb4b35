"""A policy as a scheduler of its own: all that `kubedsm run` does, with another policy.

One pod at a time, bound as soon as it is decided on, as the schedulers do whose policies these are.
With `.batched` behind its name it decides on all pods that wait by then together.

`python -m kubedsm.bench.burst.policy_process KUBECONFIG NAME` says `watching` when it knows the
cluster, and at its end a line of JSON.
"""

import asyncio
import gc
import logging
import random
import signal
import sys
from pathlib import Path

import attrs
import structlog

from kubedsm.clock import Clock, SystemClock
from kubedsm.cluster.client.kubernetes import KubernetesCluster
from kubedsm.cluster.client.port import Cluster
from kubedsm.configuration.sections import BatchSettings
from kubedsm.configuration.settings import Configuration
from kubedsm.core.policies.registry import POLICIES
from kubedsm.replay.plain_bindings import PlainBindings
from kubedsm.runtime.assembly import Runtime

READY = b"watching"
BATCHED = ".batched"
#: no pod waits for others to come, and none is late: one burst is all there is to decide on
_BATCH = BatchSettings(idle=0.0, budget=60.0)


def policy_name(name: str) -> str:
    """In the registry."""
    return name.removesuffix(BATCHED)


def runtime_of(name: str, cluster: Cluster, clock: Clock, rng: random.Random) -> Runtime:
    """The scheduler of that name, for pods of that schedulerName."""
    batch = _BATCH if name.endswith(BATCHED) else attrs.evolve(_BATCH, size=1)
    configuration = Configuration(scheduler_name=name, batch=batch)
    policy = POLICIES[policy_name(name)](configuration.promise, configuration.objective_function)
    return Runtime(PlainBindings(cluster), configuration, clock, rng, policy=policy)


async def _run(kubeconfig: Path, name: str) -> None:
    """Until it is told to end."""
    clock, told = SystemClock(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with await KubernetesCluster.connect(kubeconfig) as server:
        runtime = runtime_of(name, server, clock, random.Random())
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


def _say(line: bytes) -> None:
    """To who started us and waits for it."""
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    asyncio.run(_run(Path(sys.argv[1]), sys.argv[2]))
