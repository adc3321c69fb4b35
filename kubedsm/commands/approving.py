"""`kubedsm approve`: what a scheduler in mode suggest has proposed is carried out, by it."""

import sys
from pathlib import Path

from kubedsm.clock import SystemClock
from kubedsm.cluster.calls.explained_cluster import ExplainedCluster
from kubedsm.cluster.client.kubernetes import KubernetesCluster
from kubedsm.commands.console import log_to, remark, until_interrupted
from kubedsm.commands.handing_over import PAUSED, Scheduler
from kubedsm.runtime.config_map import ConfigMapName
from kubedsm.terminal.running import INTERRUPTED


def approve(
    proposal: str,
    kubeconfig_path: Path | None,
    context: str | None,
    config_map: ConfigMapName,
    wait: float,
) -> None:
    log_to(level="ERROR")
    codes = [INTERRUPTED]

    async def ask() -> None:
        async with await KubernetesCluster.connect(kubeconfig_path, context) as cluster:
            asked_once = ExplainedCluster(cluster, cluster.server)
            scheduler = Scheduler(asked_once, config_map, SystemClock())
            codes[0] = PAUSED if await scheduler.paused(wait) else await scheduler.asked(proposal)
            if not codes[0]:
                remark("all of it is done")

    until_interrupted(ask())
    sys.exit(codes[0])
