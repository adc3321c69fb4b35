"""RBAC rights that each feature needs: printed by `kubedsm rbac`, and granted by the manifests.

A test compares permissions with actual requests: no permission is missing or superfluous.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from kubedsm.config.settings import Configuration

CORE, APPS, POLICY, STORAGE = "", "apps", "policy", "storage.k8s.io"
EVENTS, COORDINATION = "events.k8s.io", "coordination.k8s.io"
#: output order
VERBS = ("get", "list", "watch", "create", "update", "patch")


@attrs.frozen(slots=True)
class Right:
    """RBAC right: a verb on a resource or subresource, such as `pods/binding`."""

    verb: str
    group: str
    resource: str
    #: restricted to the scheduler's namespace, and to objects named like the scheduler; among
    #: ConfigMaps also to approvals
    own: bool = False

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f".{self.group}" if self.group else "")

    @property
    def named(self) -> bool:
        """Return True if an RBAC rule can restrict the right to named objects: not for creation."""
        return self.own and self.verb != "create"


@attrs.frozen(slots=True)
class Feature:
    name: str
    #: in words
    does: str
    rights: tuple[Right, ...]
    #: in use with the default configuration
    by_default: bool = True


@attrs.frozen(slots=True)
class Rule:
    """RBAC rule: resources of an API group with the same verbs, and the features that need them."""

    features: tuple[str, ...]
    verbs: tuple[str, ...]
    group: str
    own: bool
    named: bool
    resources: tuple[str, ...]


def _list_rights(verbs: str, group: str, *resources: str, own: bool = False) -> tuple[Right, ...]:
    return tuple(Right(v, group, resource, own) for resource in resources for v in verbs.split())


_OWNER_AND_ITS_PODS = (
    *_list_rights("get list", CORE, "pods"),
    *_list_rights("get", APPS, "deployments", "replicasets", "statefulsets"),
)
_FOLLOW_CONFIG_MAP = _list_rights("list watch", CORE, "configmaps", own=True)

PLACING = Feature(
    "placing",
    "watch nodes and pods, bind pods, report on a pod why it is pending",
    (
        *_list_rights("list watch", CORE, "nodes"),
        *_list_rights("get list watch", CORE, "pods"),
        *_list_rights("create", CORE, "pods/binding"),
        *_list_rights("patch", CORE, "pods/status"),
    ),
)
SURROUNDINGS = Feature(
    "surroundings",
    "pod affinity across namespaces, and the nodes that reach a volume",
    (
        *_list_rights(
            "list watch", CORE, "namespaces", "persistentvolumeclaims", "persistentvolumes"
        ),
        *_list_rights(
            "list watch",
            STORAGE,
            "storageclasses",
            "csinodes",
            "csidrivers",
            "csistoragecapacities",
        ),
    ),
)
VOLUMES = Feature(
    "volumes",
    "bind or provision volumes for the node of a pod (WaitForFirstConsumer)",
    (*_list_rights("get patch", CORE, "persistentvolumeclaims", "persistentvolumes"),),
)
EVENTS_WRITTEN = Feature(
    "events",
    "write Events about decisions",
    _list_rights("create patch", EVENTS, "events"),
)
TIERS = Feature(
    "tiers",
    "update the tier label of pods when the tier of their node changes",
    (*_OWNER_AND_ITS_PODS, *_list_rights("patch", CORE, "pods")),
)
MIGRATIONS = Feature(
    "migrations",
    "migrate pods (suggester.mode or optimiser.mode: apply, `kubedsm suggest|pack --apply`)",
    (
        *_OWNER_AND_ITS_PODS,
        *_list_rights("list", CORE, "services"),
        *_list_rights("list", POLICY, "poddisruptionbudgets"),
        *_list_rights("patch", CORE, "pods"),
        *_list_rights("create", CORE, "pods/eviction"),
    ),
)
PRE_PULL = Feature(
    "pre-pull",
    "create a short-lived pod that pulls images ahead of a migration (migration.prePull)",
    (
        *_list_rights("get", CORE, "pods"),
        *_list_rights("create", CORE, "pods", "pods/eviction"),
    ),
    by_default=False,
)
PREEMPTION = Feature(
    "preemption",
    "evict pods for one of higher priority (preemption: enabled)",
    (
        *_list_rights("list", POLICY, "poddisruptionbudgets"),
        *_list_rights("create", CORE, "pods/eviction"),
    ),
)
SITES = Feature(
    "sites",
    "warn about Services that ignore the sites of demand (services.NAME.demand, site.demand)",
    (
        *_list_rights("get", APPS, "deployments", "statefulsets"),
        *_list_rights("list", CORE, "services"),
    ),
)
PAUSE = Feature(
    "pause",
    "pause migrations while the ConfigMap has the pause switch set",
    _FOLLOW_CONFIG_MAP,
)
CONFIGURATION = Feature(
    "configuration",
    "follow the configuration in the ConfigMap (--configmap)",
    (*_list_rights("get", CORE, "configmaps", own=True), *_FOLLOW_CONFIG_MAP),
)
LEADER_ELECTION = Feature(
    "leader-election",
    "act only while holding the Lease (`kubedsm run`, `kubedsm suggest|pack --apply`)",
    _list_rights("create get update", COORDINATION, "leases", own=True),
)
REQUESTS = Feature(
    "requests",
    "execute requests of `kubedsm suggest --apply` and `kubedsm approve` once only",
    _list_rights("list", CORE, "events"),
)
EXPLAIN = Feature(
    "explain",
    "identify the cluster, and explain decisions from before a restart",
    _list_rights("list", CORE, "events", "namespaces"),
)

FEATURES = (
    PLACING,
    SURROUNDINGS,
    VOLUMES,
    EVENTS_WRITTEN,
    TIERS,
    MIGRATIONS,
    PRE_PULL,
    PREEMPTION,
    SITES,
    PAUSE,
    CONFIGURATION,
    LEADER_ELECTION,
    REQUESTS,
    EXPLAIN,
)


def unused_features(configuration: "Configuration") -> set[str]:
    """Return the names of features that the configuration disables, whose rights are
    unnecessary.
    """
    unused = set()
    if "apply" not in {configuration.suggester.mode, configuration.packing_mode}:
        unused |= {"migrations", "requests"}
    if not configuration.migration.pre_pull:
        unused.add(PRE_PULL.name)
    if configuration.preemption != "enabled":
        unused.add("preemption")
    return unused


def rules(features: Iterable[Feature]) -> list[Rule]:
    """Return the RBAC rules that grant the features' rights, each right once."""
    needing: dict[Right, list[str]] = {}
    for feature in features:
        for right in dict.fromkeys(feature.rights):
            needing.setdefault(right, []).append(feature.name)
    of_resource: dict[tuple[str, bool, bool, str], list[Right]] = {}
    for right in needing:
        key = (right.group, right.own, right.named, right.resource)
        of_resource.setdefault(key, []).append(right)
    alike: dict[Rule, list[str]] = {}
    for (group, own, named, resource), rights in of_resource.items():
        verbs = tuple(sorted((right.verb for right in rights), key=VERBS.index))
        names = tuple(dict.fromkeys(name for right in rights for name in needing[right]))
        alike.setdefault(Rule(names, verbs, group, own, named, ()), []).append(resource)
    return [attrs.evolve(rule, resources=tuple(found)) for rule, found in alike.items()]
