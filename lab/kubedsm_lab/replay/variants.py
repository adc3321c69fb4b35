"""Contenders of a replay by name: baseline policies, KubeDSM, and KubeDSM with other settings.

The variants are from both versions of the KubeDSM paper (arXiv 2501.07130). MidMigration means half
the frequency of migrations in the first version, and fewer migrations per suggestion in the second.
KubeDSM with changed configuration settings has these as its name: `suggester.period=5s`, or several
joined by `+`.
"""

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import attrs
import click

from kubedsm.config.documents import DocumentError
from kubedsm.config.fields import read_section, write_section
from kubedsm.config.services import EVERY_SERVICE
from kubedsm.config.settings import Configuration
from kubedsm.config.yaml_text import parse_yaml
from kubedsm_lab.baselines.registry import KUBEDSM, LOAD_AWARE, ON_REQUEST, POLICIES
from kubedsm_lab.emulator.paper import NAMESPACE

Reconfigure = Callable[[Configuration], Configuration]


@attrs.frozen
class Contender:
    #: name in the registry
    policy: str
    reconfigure: Reconfigure
    #: services that `reconfigure` names
    services: tuple[str, ...] = ()


def with_settings(configuration: Configuration, settings: Mapping[str, str]) -> Configuration:
    """Copy the configuration with new YAML values under dotted keys such as `suggester.period`.

    Raises DocumentError.
    """
    changed = write_section(configuration)
    for key, value in settings.items():
        *sections, last = key.split(".")
        place = changed
        for name in sections:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                raise DocumentError("no section", tuple(sections))
        place[last] = parse_yaml(value)
    return read_section(Configuration, changed)


def _as_it_is(configuration: Configuration) -> Configuration:
    return configuration


def _make_variant(settings: Mapping[str, str], services: Iterable[str] = ()) -> Contender:
    """Return the contender KubeDSM with changed settings, given by setting name as YAML text.

    `services` are the services that the settings refer to.
    """
    return Contender(KUBEDSM, partial(with_settings, settings=settings), tuple(services))


def _halve_frequency(configuration: Configuration) -> Configuration:
    period = f"{2 * configuration.suggester.period:g}s"
    return with_settings(configuration, {"suggester.period": period})


def _make_qos_variant(factors: Mapping[str, float]) -> Contender:
    """Return the contender KubeDSM with a QoS factor for each service, in place of
    all QoS targets.
    """
    services = {EVERY_SERVICE: {"qos": 1.0, "weight": 1.0}} | {
        f"{NAMESPACE}/{name}": {"qos": factor} for name, factor in factors.items()
    }
    return _make_variant({"services": json.dumps(services)}, factors)


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
#: KubeDSM with other migration settings
MIGRATION_VARIANTS: Mapping[str, Contender] = {
    # Migrate for any gain, count all missing shares alike, never wait for capacity: as the paper.
    "paper-suggester": _make_variant(
        {
            "suggester.algorithm": "paper",
            "migration.price": "0s",
            "batch.edgeWait": "0s",
            "objective.evenness": "0",
        }
    ),
    "mid-migration": _make_variant(
        {"suggester.maxCloudToEdge": "2", "suggester.maxEdgeReorder": "1"}
    ),
    "half-frequency": Contender(KUBEDSM, _halve_frequency),
    "no-cloud-offload": _make_variant({"suggester.maxCloudToEdge": "0"}),
    "no-edge-migration": _make_variant({"suggester.maxEdgeReorder": "0"}),
    "no-migration": _make_variant({"suggester.mode": "'off'"}),
}
QOS_VARIANTS: Mapping[str, Contender] = {
    "all-half": _make_variant({"services": f"{{'{EVERY_SERVICE}': {{qos: 0.5}}}}"}),
    **{name: _make_qos_variant(factors) for name, factors in _FACTORS.items()},
}
#: KubeDSM with the objective of the first version: seconds above a target, and no benefit from
#: faster answers. The paper's targets are not known: ours is that of a service with 75% of its pods
#: on the edge, about the share of the edge at a demand of 1.5 times its capacity.
OBJECTIVE_VARIANTS: Mapping[str, Contender] = {
    "latency-objective": _make_variant(
        {
            "objective.kind": "latency",
            "services": f"{{'{EVERY_SERVICE}': {{latencyTarget: 35ms, weight: 1.0}}}}",
        }
    ),
}
CONTENDERS: Mapping[str, Contender] = {
    KUBEDSM: Contender(KUBEDSM, _as_it_is),
    **BASELINES,
    **MIGRATION_VARIANTS,
    **QOS_VARIANTS,
    **OBJECTIVE_VARIANTS,
    **{name: Contender(name, _as_it_is) for name in ON_REQUEST},
}


def _parse_settings(name: str) -> Contender:
    def reconfigure(configuration: Configuration) -> Configuration:
        settings = (setting.partition("=") for setting in name.split("+"))
        return with_settings(configuration, {key: value for key, _, value in settings})

    try:
        reconfigure(Configuration())
    except DocumentError as error:
        raise click.UsageError(f"no policy {name!r}: {error}") from None
    return Contender(KUBEDSM, reconfigure)


def contender(name: str, services: Iterable[str]) -> Contender:
    """Return the policy, or variant of KubeDSM, with the given name. Raises UsageError.

    A variant that refers to services other than `services` is unknown as well.
    """
    found = _parse_settings(name) if "=" in name else CONTENDERS.get(name)
    if found is None:
        close = difflib.get_close_matches(name, CONTENDERS, 1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(CONTENDERS)}"
        raise click.UsageError(f"no policy {name!r}: {hint}")
    missing = sorted(set(found.services) - set(services))
    if missing:
        raise click.UsageError(
            f"policy {name!r} is about services {', '.join(found.services)}, "
            f"and there is no {', '.join(missing)}"
        )
    return found
