"""Mismatches between configuration and cluster: unmatched services, tiers without nodes."""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from kubedsm.config.documents import shown
from kubedsm.config.fields import did_you_mean
from kubedsm.config.services import ENDING, EVERY_SERVICE, is_label_key, keys_for
from kubedsm.config.settings import Configuration
from kubedsm.model.model import Node, Tier, Tiers, Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.qos_targets import find_demand

#: unmatched keys of `services` reported at once
TOLD = 10
#: limit of comparisons for a suggestion, each of some microseconds
_COMPARED = 2000
#: consequence of a tier without nodes
_WITHOUT = {
    Tier.EDGE: "all pods go to the cloud",
    Tier.CLOUD: "pods without capacity at the edge stay pending",
}


def list_unmatched(services: Iterable[str], workloads: Iterable[Workload]) -> list[str]:
    """Return the keys of `services` without a matching workload."""
    keys = [
        key for key in services if key not in (EVERY_SERVICE, *ENDING) and not is_label_key(key)
    ]
    spoken_for = {key for workload in workloads for key in keys_for(workload)} if keys else set()
    return [key for key in keys if key not in spoken_for]


def why_unmatched(key: str, snapshot: Snapshot) -> str:
    """Return a warning about an unmatched key of `services`, and suggest a similar key if any."""
    ours = snapshot.census.shares
    theirs = {pod.workload for pod in snapshot.pods.values()} - ours.keys()
    if any(key in keys_for(workload) for workload in theirs):
        return (
            f"services.{key} matches only pods of other schedulers:"
            f" they need schedulerName: {snapshot.scheduler_name}"
        )
    said = f"services.{key} matches no workload that has pods"
    meant = _similar_key(key, (*ours, *sorted(theirs)))
    return f"{said}; did you mean {meant}?" if meant else said


def _similar_key(key: str, workloads: Iterable[Workload]) -> str:
    """Return the most similar `services` key matching a workload; empty if none is similar."""
    namespace, _, name = key.partition("/")
    listed = list(workloads)
    if name == "*":
        near = _nearest_name(namespace, (workload.namespace for workload in listed))
        return f"{near}/*" if near else ""
    there = [workload for workload in listed if namespace in ("*", workload.namespace)]
    if near := _nearest_name(name, (workload.name for workload in there)):
        return f"{namespace}/{near}"
    near = _nearest_name(namespace, (other.namespace for other in listed if other.name == name))
    return f"{near}/{name}" if near else ""


def _nearest_name(name: str, names: Iterable[str]) -> str:
    near = get_close_matches(name, list(dict.fromkeys(names))[:_COMPARED], n=1)
    return near[0] if near else ""


def missing_tiers(nodes: Iterable[Node], tiers: Tiers) -> dict[Tier, str]:
    """Return a warning with consequence and remedy for each tier without nodes."""
    there = {node.tier for node in nodes}
    missing = [tier for tier in Tier if tier not in there]
    if len(missing) == len(Tier):
        return dict.fromkeys(
            missing,
            f"no node is edge or cloud, so no pod is placed: {_label_command(Tier.EDGE, tiers)}",
        )
    return {
        tier: f"no node is {tier}, so {_WITHOUT[tier]}: {_label_command(tier, tiers)}"
        for tier in missing
    }


def _label_command(tier: Tier, tiers: Tiers) -> str:
    values = tiers.edge if tier is Tier.EDGE else tiers.cloud
    return f"kubectl label node NAME {tiers.labels[0]}={min(values)}"


def list_unknown_sites(snapshot: Snapshot, configuration: Configuration) -> dict[str, str]:
    """Return a warning for each site with demand that neither an edge node nor the latency matrix
    names.
    """
    goal = configuration.policy.sites
    if goal is None or not goal.may_apply(snapshot):
        return {}
    known, asking = goal.known_sites(snapshot), dict[str, list[Workload]]()
    for workload, weights in find_demand(goal, snapshot).items():
        for site in sorted(weights):
            if weights[site] and site not in known:
                asking.setdefault(site, []).append(workload)
    return {
        site: f"no edge node is at site {shown(site)}, so demand there is ignored"
        f" ({_name_some(workloads)}){did_you_mean(site, known)}"
        for site, workloads in asking.items()
    }


def _name_some(workloads: list[Workload]) -> str:
    more = len(workloads) - 1
    return f"{workloads[0]} and {more} more" if more else str(workloads[0])


def list_mismatches(snapshot: Snapshot, configuration: Configuration) -> Iterator[str]:
    """Yield one line per mismatch between configuration and cluster."""
    yield from dict.fromkeys(missing_tiers(snapshot.nodes.values(), configuration.tiers).values())
    keys = list_unmatched(configuration.services, snapshot.census.shares)
    yield from (why_unmatched(key, snapshot) for key in keys[:TOLD])
    yield from list(list_unknown_sites(snapshot, configuration).values())[:TOLD]
    if more := keys[TOLD:]:
        yield f"{len(more)} more keys of services match no workload that has pods"
