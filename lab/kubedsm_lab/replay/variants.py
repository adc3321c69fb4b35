"""Contenders of a replay by name: policies, and KubeDSM with other configurations.

The variants are those of the KubeDSM paper (arXiv 2501.07130, its two versions: MidMigration is
half the frequency of migrations in the first, fewer moves a suggestion in the second), its own
suggester, and the objective of its first version. KubeDSM with changed settings is named by these:
`suggester.period=5s`, or several joined by `+`.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from kubedsm.config.documents import DocumentError, at
from kubedsm.config.services import EVERY_SERVICE, Service
from kubedsm.config.settings import Configuration, with_settings
from kubedsm_lab.baselines.registry import KUBEDSM, LOAD_AWARE, ON_REQUEST, POLICIES
from kubedsm_lab.emulator.paper import NAMESPACE

Reconfigure = Callable[[Configuration], Configuration]


class UnknownPolicyError(ValueError):
    """No policy or variant has that name."""


@attrs.frozen
class Contender:
    #: name in the registry
    policy: str
    reconfigure: Reconfigure
    #: services that `reconfigure` names
    services: tuple[str, ...] = ()


def _as_it_is(configuration: Configuration) -> Configuration:
    return configuration


def _suggester(**changes: Any) -> Reconfigure:
    def reconfigure(configuration: Configuration) -> Configuration:
        with at("suggester"):
            suggester = attrs.evolve(configuration.suggester, **changes)
        return attrs.evolve(configuration, suggester=suggester)

    return reconfigure


def _half_as_often(configuration: Configuration) -> Configuration:
    return _suggester(period=2 * configuration.suggester.period)(configuration)


def _latency_objective(configuration: Configuration) -> Configuration:
    """Minimise the seconds above a target, as the first version; faster has no benefit."""
    return attrs.evolve(
        configuration,
        objective=attrs.evolve(configuration.objective, kind="latency"),
        services={EVERY_SERVICE: Service(latency_target=LATENCY_TARGET, weight=1.0)},
    )


def _papers_suggester(configuration: Configuration) -> Configuration:
    """Migrate for any gain, and never wait for capacity, as the paper does."""
    free = with_settings(configuration, {"migration.price": "0s", "batch.edgeWait": "0s"})
    return _suggester(algorithm="paper")(free)


def _qos(factors: Mapping[str, float]) -> Reconfigure:
    """Replace all QoS targets by factors, by service or by `*`."""

    def reconfigure(configuration: Configuration) -> Configuration:
        services = {EVERY_SERVICE: Service(qos=1.0, weight=1.0)} | {
            name if name == EVERY_SERVICE else f"{NAMESPACE}/{name}": Service(qos=factor)
            for name, factor in factors.items()
        }
        return attrs.evolve(configuration, services=services)

    return reconfigure


#: seconds. The paper's targets are not known: ours is that of a service with 75% of its pods on the
#: edge, about the share of the edge at a demand of 1.5 times its capacity.
LATENCY_TARGET = 0.035

_FACTORS: Mapping[str, Mapping[str, float]] = {
    "c-over-a": {"a": 0.5, "b": 0.1, "c": 1.0, "d": 0.1},
    "respect-d": {"a": 0.1, "b": 0.1, "c": 0.1, "d": 0.5},
    "only-d": {"a": 0.0, "b": 0.0, "c": 0.0, "d": 1.0},
}

BASELINES: Mapping[str, Contender] = {
    name: Contender(name, _as_it_is)
    for name in POLICIES
    if name not in (KUBEDSM, LOAD_AWARE, *ON_REQUEST)
}
#: KubeDSM with fewer or other migrations
MIGRATION_VARIANTS: Mapping[str, Contender] = {
    name: Contender(KUBEDSM, reconfigure)
    for name, reconfigure in {
        "paper-suggester": _papers_suggester,
        "mid-migration": _suggester(max_cloud_to_edge=2, max_edge_reorder=1),
        "half-frequency": _half_as_often,
        "no-cloud-offload": _suggester(max_cloud_to_edge=0),
        "no-edge-migration": _suggester(max_edge_reorder=0),
        "no-migration": _suggester(mode="off"),
    }.items()
}
QOS_VARIANTS: Mapping[str, Contender] = {
    "all-half": Contender(KUBEDSM, _qos({EVERY_SERVICE: 0.5})),
    **{
        name: Contender(KUBEDSM, _qos(factors), tuple(factors))
        for name, factors in _FACTORS.items()
    },
}
#: KubeDSM with another objective
OBJECTIVE_VARIANTS: Mapping[str, Contender] = {
    "latency-objective": Contender(KUBEDSM, _latency_objective),
}
CONTENDERS: Mapping[str, Contender] = {
    KUBEDSM: Contender(KUBEDSM, _as_it_is),
    **BASELINES,
    **MIGRATION_VARIANTS,
    **QOS_VARIANTS,
    **OBJECTIVE_VARIANTS,
    **{name: Contender(name, _as_it_is) for name in ON_REQUEST},
}


def _with_settings(name: str) -> Contender:
    def reconfigure(configuration: Configuration) -> Configuration:
        settings = (setting.partition("=") for setting in name.split("+"))
        return with_settings(configuration, {key: value for key, _, value in settings})

    try:
        reconfigure(Configuration())
    except DocumentError as error:
        raise UnknownPolicyError(f"no policy {name!r}: {error}") from None
    return Contender(KUBEDSM, reconfigure)


def contender(name: str, services: Iterable[str]) -> Contender:
    """Raises UnknownPolicyError for an unknown name, and for a contender of other services."""
    found = _with_settings(name) if "=" in name else CONTENDERS.get(name)
    if found is None:
        close = difflib.get_close_matches(name, CONTENDERS, 1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(CONTENDERS)}"
        raise UnknownPolicyError(f"no policy {name!r}: {hint}")
    missing = sorted(set(found.services) - set(services))
    if missing:
        raise UnknownPolicyError(
            f"policy {name!r} is about services {', '.join(found.services)}, "
            f"and there is no {', '.join(missing)}"
        )
    return found
