"""Monitor of edge sites: network partitions, and the stabilisation period after each.

State is kept in memory only: after a restart a site that is back counts as stable.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Sequence

import attrs
import structlog

from kubedsm.events.controller import Controller
from kubedsm.model.events import Change
from kubedsm.model.model import Node, NodeName, Pod, Uid, Workload
from kubedsm.model.sites import NOTHING_AWAY, Away, is_partitioned, sites_of
from kubedsm.process.backoff import Doubling
from kubedsm.process.clock import RESOLUTION

log = structlog.get_logger()

#: status of a node's Ready condition by the taint that Kubernetes sets for it
_READINESS = {"node.kubernetes.io/not-ready": "False", "node.kubernetes.io/unreachable": "Unknown"}

#: maximum stabilisation period of a site with repeated partitions, in multiples of `site.settle`
MOST_SETTLES = 16
#: seconds after the stabilisation period until previous partitions of a site are forgotten
FORGOTTEN = 3600.0


@attrs.define
class _Site:
    #: begin or end of the last partition
    since: float
    #: seconds of the stabilisation period
    settle: float
    partitioned: bool = True
    #: previous partitions within `FORGOTTEN`
    partitions_before: int = 0
    #: the stabilisation period is over
    stable: bool = False
    workloads: set[Workload] = attrs.field(factory=set)


@attrs.define
class Sites(Controller):
    _known: dict[str, _Site] = attrs.field(factory=dict, init=False)
    _away: Away = attrs.field(default=NOTHING_AWAY, init=False)
    #: `_away` requires recalculation now, or at `_due`
    _stale: bool = attrs.field(default=True, init=False)
    _due: float = attrs.field(default=math.inf, init=False)
    _changes: int = attrs.field(default=-1, init=False)
    _news: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    #: replacements of pods that are being deleted at partitioned sites
    _stand_ins: dict[Uid, Workload] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.configuration.observe(lambda _: self._invalidate())

    def observe(self, change: Change) -> None:
        """Apply a node change: recompute which sites are partitioned, and log readiness changes."""
        if change.node_before != change.node_after:
            self._invalidate()
            _log_readiness(change.node_before, change.node_after)

    def _invalidate(self) -> None:
        self._stale = True
        self._news.set()

    async def run(self, on_partition: Callable[[frozenset[NodeName]], None]) -> None:
        """Pass newly partitioned nodes to `on_partition`, once per partition, until cancelled."""
        await self.synced.wait()
        reported = frozenset[NodeName]()
        while True:
            self._news.clear()
            partitioned = self.away().partitioned_nodes
            if partitioned - reported:
                on_partition(partitioned - reported)
            reported = partitioned
            wait = None if self._due == math.inf else max(0.0, self._due - self.clock.monotonic())
            try:
                async with asyncio.timeout(wait):
                    await self._news.wait()
            except TimeoutError:
                continue

    def away(self) -> Away:
        """Return the edge sites that are partitioned or in the stabilisation period afterwards,
        with their nodes.
        """
        now = self.clock.monotonic()
        # During partitions, changes of pods at partitioned sites matter as well.
        changed = bool(self._away.partitioned) and self.mirror.changes != self._changes
        if self.synced.is_set() and (self._stale or changed or now + RESOLUTION >= self._due):
            self._stale, self._changes = False, self.mirror.changes
            self._update(now)
        return self._away

    def stand_ins(self, pods: Sequence[Pod]) -> list[Pod]:
        """Return pending pods that replace pods still running at a partitioned edge site.

        Per workload, the oldest pending pods, up to the number of serving pods.
        """
        away = self.away()
        if not away.serving:
            self._stand_ins.clear()
            return []
        there = {uid: of for uid, of in self._stand_ins.items() if self._exists(uid)}
        counts = Counter(there.values())
        for pod in sorted(pods, key=lambda pod: pod.created):
            of = pod.workload
            if pod.uid not in there and counts[of] < away.serving.get(of, 0):
                there[pod.uid] = of
                counts[of] += 1
        self._stand_ins = there
        return [pod for pod in pods if pod.uid in there]

    def _exists(self, uid: Uid) -> bool:
        pod = self.mirror.pod(uid)
        return pod is not None and pod.counts_for_qos

    def _update(self, now: float) -> None:
        self._pass_time(now)
        settings = self.configuration.current.site
        sites = sites_of(self.mirror.nodes(), settings.label)
        for name, nodes in sites.items():
            if is_partitioned(nodes) and not (
                name in self._known and self._known[name].partitioned
            ):
                self._begin_partition(name, nodes, now)
        for name, site in list(self._known.items()):
            if name not in sites:
                del self._known[name]
            elif site.partitioned and not is_partitioned(sites[name]):
                delays = Doubling(settings.settle, settings.settle * MOST_SETTLES)
                site.settle = delays.delay_after(site.partitions_before)
                log.info(
                    "site reachable",
                    site=name,
                    partitioned_for=round(now - site.since),
                    stabilising_for=site.settle,
                )
                site.partitioned, site.since = False, now
        self._pass_time(now)
        self._sum_up(sites)

    def _begin_partition(self, name: str, nodes: Sequence[Node], now: float) -> None:
        known = self._known.get(name)
        again = 0 if known is None else known.partitions_before + 1
        pods = sum(len(self.mirror.pods_on(node.name)) for node in nodes)
        log.warning("site partitioned", site=name, nodes=len(nodes), pods=pods)
        workloads = set() if known is None or known.stable else known.workloads
        self._known[name] = _Site(now, 0.0, partitions_before=again, workloads=workloads)

    def _pass_time(self, now: float) -> None:
        self._due = math.inf
        for name, site in list(self._known.items()):
            if site.partitioned:
                continue
            stable_at = site.since + site.settle
            forgotten = stable_at + FORGOTTEN
            if not site.stable and now + RESOLUTION >= stable_at:
                site.stable = True
                log.info("site stable", site=name)
            if now + RESOLUTION >= forgotten:
                del self._known[name]
            else:
                self._due = min(self._due, forgotten if site.stable else stable_at)

    def _sum_up(self, sites: dict[str, list[Node]]) -> None:
        names = {name: frozenset(node.name for node in sites[name]) for name in self._known}
        partitioned = {name: names[name] for name, site in self._known.items() if site.partitioned}
        stabilising = {
            name: names[name]
            for name, site in self._known.items()
            if not (site.partitioned or site.stable)
        }
        there: list[Pod] = []
        for name, nodes in partitioned.items():
            pods = [pod for node in nodes for pod in self.mirror.pods_on(node)]
            self._known[name].workloads.update(pod.workload for pod in pods)
            there += pods
        away = (*partitioned, *stabilising)
        workloads = [of for name in away for of in self._known[name].workloads]
        self._away = Away.of(partitioned, stabilising, there, workloads)


def _log_readiness(before: Node | None, after: Node | None) -> None:
    """Log that a node became NotReady, or Ready again."""
    if before is None or after is None:
        return
    was, now = _readiness(before), _readiness(after)
    if was == now:
        return
    if now == "True":
        log.info("node ready", node=after.name)
    else:
        log.warning("node not ready", node=after.name, ready=now)


def _readiness(node: Node) -> str:
    """Return the status of the node's Ready condition, derived from the node's taints."""
    return next((_READINESS[t.key] for t in node.taints if t.key in _READINESS), "True")
