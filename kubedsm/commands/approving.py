"""`kubedsm approve`: what a scheduler in mode suggest has proposed is carried out, by it."""

import sys
from pathlib import Path

from kubedsm.commands.console import log_to, remark, until_interrupted
from kubedsm.commands.handing_over import PAUSED, Scheduler
from kubedsm.kube.calls.explained_cluster import ExplainedCluster
from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.kube.watching.config_map import ConfigMapName
from kubedsm.process.clock import SystemClock
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
