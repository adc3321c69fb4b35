"""Scheduler process with a baseline policy in the runtime of `kubedsm run`, metrics included.

Pods are decided on and bound one at a time, as by the schedulers of these policies. With `.batched`
after the name a policy decides on all pending pods together.

`python -m kubedsm_lab.bench.burst.policy_process KUBECONFIG NAME` prints `watching` once synced,
and at the end the statistics of the score cache.
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
from kubedsm_lab.baselines.cache_scheduler import CacheScheduler, Why
from kubedsm_lab.baselines.in_turn import InTurn
from kubedsm_lab.baselines.registry import POLICIES
from kubedsm_lab.bench.processes import READY
from kubedsm_lab.replay.plain_bindings import PlainBindings

BATCHED = ".batched"
#: A batch does not wait for more pods, and the deadline is longer than any decision on a burst.
_BATCH = BatchSettings(idle=0.0, budget=60.0)


def find_policy(name: str) -> Policy:
    usual = Configuration()
    return POLICIES[name.removesuffix(BATCHED)](usual.qos_target, usual.objective_function)


def build_runtime(
    name: str, policy: Policy, cluster: Cluster, clock: Clock, rng: random.Random
) -> Runtime:
    """Return a scheduler runtime for pods whose schedulerName is `name`."""
    batch = _BATCH if name.endswith(BATCHED) else attrs.evolve(_BATCH, size=1)
    configuration = Configuration(scheduler_name=name, batch=batch)
    instruments = Instruments(clock, name, host="")
    measured = MeasuredCluster(PlainBindings(cluster), clock, instruments.count_request)
    return Runtime(measured, configuration, clock, rng, policy=policy, listener=instruments)


def encode_lookups(policy: Policy) -> bytes:
    """Encode the policy's score-cache lookups, counted by result, as the JSON line that the process
    prints last; null if the policy has no score cache.
    """
    cache = policy.choose if isinstance(policy, InTurn) else None
    return msgspec.json.encode(cache.looks if isinstance(cache, CacheScheduler) else None)


def decode_lookups(line: bytes) -> dict[Why, int] | None:
    """Decode the score-cache lookups, counted by result, from the process's last output line; None
    if absent.
    """
    try:
        return msgspec.json.decode(line, type=dict[Why, int] | None)
    except msgspec.DecodeError:
        return None


async def _run(kubeconfig: Path, name: str) -> None:
    """Run the scheduler process with the baseline policy until SIGTERM."""
    clock, stopped = SystemClock(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with await KubernetesCluster.connect(kubeconfig) as server:
        policy = find_policy(name)
        runtime = build_runtime(name, policy, server, clock, random.Random())
        async with asyncio.TaskGroup() as tasks:
            parts = [tasks.create_task(part) for part in (runtime.run(), server.keep_warm(clock))]
            await runtime.synced.wait()
            # As `kubedsm run` does.
            gc.collect()
            gc.freeze()
            _write_line(READY)
            await stopped.wait()
            for part in parts:
                part.cancel()
    _write_line(encode_lookups(policy))


def _write_line(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    reserve_stdout()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    asyncio.run(_run(Path(sys.argv[1]), sys.argv[2]))
