"""How results were made: by which command and version, on what, with which settings."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import click
import yaml
from click.core import ParameterSource

from kubedsm import __version__
from kubedsm.config.duration import format_duration
from kubedsm.config.settings import Configuration, dump
from kubedsm_lab.replay.answer import KEPT
from kubedsm_lab.replay.glossary import legend
from kubedsm_lab.replay.report import markdown
from kubedsm_lab.replay.sections import Table
from kubedsm_lab.replay.services import ServiceSpec
from kubedsm_lab.replay.world import Run, Setup

_EMULATED = (
    "**Emulated**: the scheduler is the real one, the cluster is not, and time is virtual; nothing"
    " here was measured on a real cluster."
)
#: letters
_LINE = 90
#: nodes that are named one by one
_FEW = 4


@attrs.frozen
class Provenance:
    #: as one types it
    command: str
    #: what is to be known first: a sentence
    first: str = ""
    #: what else is to be known, and what it is: Markdown
    facts: Mapping[str, str] = attrs.field(factory=dict)
    #: what it was found on
    tables: Sequence[Table] = ()


def told(answer: str, made: Provenance, text: str) -> str:
    """Markdown that begins with what it comes to and how it was made, around the text."""
    command = f"Made by KubeDSM {__version__} with\n\n```sh\n{made.command}\n```"
    facts = "\n".join(f"- **{name}**: {what}" for name, what in made.facts.items())
    parts = [f"**{answer}**", made.first, command, facts, text.rstrip()]
    if made.tables:
        parts.append("## What it was played on")
        parts += (f"{markdown(*each)}\n\n{legend(each[0])}" for each in made.tables)
    return "\n\n".join(filter(None, parts)) + "\n"


def typed() -> str:
    """The command that is running, to be typed again; a long one on several lines."""
    context = click.get_current_context()
    arguments: list[str] = []
    options: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            given = context.params[name]
            values = [str(each) for each in (given if isinstance(given, tuple) else (given,))]
            if isinstance(parameter, click.Argument):
                arguments += map(shlex.quote, values)
            elif given is True:
                options.append(parameter.opts[0])
            else:
                options += (shlex.join((parameter.opts[0], value)) for value in values)
    if any(each.lstrip("'").startswith("-") for each in arguments):
        options, arguments = [*options, "--", *arguments], []
    words = [" ".join([context.command_path, *arguments]), *options]
    whole = " ".join(words)
    return whole if len(whole) <= _LINE else " \\\n    ".join(words)


def of_runs(runs: Sequence[Run], setup: Setup, cluster: str, services: str | None) -> Provenance:
    """cluster, services: where these came from, as it was given."""
    scenarios = ", ".join(f"`{name}`" for name in dict.fromkeys(run.name for run in runs))
    seeds = sorted({run.seed for run in runs})
    facts = {
        "scenarios": scenarios,
        "seeds": f"1 to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0]),
        "settings": _settings(setup.configuration),
        "cluster": f"`{cluster}`" if cluster != "paper" else "the KubeDSM paper's",
        "services": f"`{services}`" if services else "the KubeDSM paper's",
    }
    return Provenance(
        typed(), f"{KEPT} {_EMULATED}", facts, (_nodes(setup), _services(setup.services))
    )


def _settings(configuration: Configuration) -> str:
    """What differs from the defaults."""
    ours, usual = (
        dict(_flat(yaml.safe_load(dump(each)))) for each in (configuration, Configuration())
    )
    changed = [f"`{key}: {value}`" for key, value in ours.items() if usual.get(key) != value]
    return ", ".join(changed) or "KubeDSM's defaults"


def _flat(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _nodes(setup: Setup) -> Table:
    """A line for all that are alike."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for node in setup.cluster.nodes:
        tier = setup.configuration.tiers.of(node["metadata"].get("labels") or {})
        room = (node.get("status") or {}).get("allocatable") or {}
        what = (tier or "none", *(str(room.get(key, "-")) for key in ("cpu", "memory")))
        alike.setdefault(what, []).append(node["metadata"]["name"])
    return ["node", "tier", "cpu", "memory"], [
        [_listed(names), *what] for what, names in alike.items()
    ]


def _listed(names: Sequence[str]) -> str:
    if len(names) <= _FEW:
        return ", ".join(names)
    return f"{names[0]} to {names[-1]}: {len(names)} nodes"


def _services(services: Sequence[ServiceSpec]) -> Table:
    return [
        "service",
        "cpu",
        "memory",
        "pods, least to most",
        "requests/s a pod",
        "at once",
        "takes",
    ], [
        [
            each.name,
            each.cpu,
            each.memory,
            "{} to {}".format(*each.replicas),
            each.target_rate,
            str(each.server.concurrency),
            format_duration(each.server.service_time),
        ]
        for each in services
    ]
