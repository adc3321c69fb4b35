"""Provenance of a report: command, version, cluster, services and configuration settings."""

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from kubedsm import __version__
from kubedsm.config.duration import format_duration
from kubedsm.config.settings import Configuration, dump
from kubedsm_lab.replay.answer import KEPT
from kubedsm_lab.replay.report import MEANINGS
from kubedsm_lab.replay.services import ServiceSpec
from kubedsm_lab.replay.tables import UNKNOWN, Table, grid, legend, markdown
from kubedsm_lab.replay.world import Run, Setup

_EMULATED = (
    "**Emulated**: the scheduler is the real one, the cluster is not, and time is virtual; nothing"
    " here was measured on a real cluster."
)
#: letters of a command on one line; nodes that are listed by name
_LINE, _FEW = 90, 4


def render_report(
    answer: str,
    origin: str,
    text: str,
    facts: Mapping[str, str] | None = None,
    tables: Iterable[Table] = (),
) -> str:
    """Return the report as Markdown: answer, provenance, `facts`, `text`, then the tables."""
    command = f"Made by KubeDSM {__version__} with\n\n```sh\n{quote_command()}\n```"
    listed = "\n".join(f"- **{name}**: {fact}" for name, fact in (facts or {}).items())
    parts = [f"**{answer}**", origin, command, listed, text.rstrip()]
    for number, each in enumerate(tables):
        parts += [] if number else ["## What it was played on"]
        parts.append(f"{markdown(*each)}\n\n{legend(each[0], MEANINGS)}")
    return "\n\n".join(filter(None, parts)) + "\n"


def quote_command() -> str:
    """Return this process's command line, quoted for a shell; if long, one option per line."""
    words = ["kubedsm", *map(shlex.quote, sys.argv[1:])]
    whole = " ".join(words)
    if len(whole) <= _LINE:
        return whole
    return " ".join(f"\\\n    {word}" if word.startswith("-") else word for word in words)


def describe_runs(
    answer: str,
    text: str,
    runs: Sequence[Run],
    setup: Setup,
    cluster: str,
    services: str | None,
) -> str:
    """Return the description of replayed runs as Markdown: scenarios, policies, cluster, services
    and settings.

    `cluster` and `services` are the command's arguments.
    """
    scenarios = ", ".join(f"`{name}`" for name in dict.fromkeys(run.name for run in runs))
    seeds = sorted({run.seed for run in runs})
    facts = {
        "scenarios": scenarios,
        "seeds": f"1 to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0]),
        "settings": _describe_settings(setup.configuration),
        "cluster": f"`{cluster}`" if cluster != "paper" else "the KubeDSM paper's",
        "services": f"`{services}`" if services else "the KubeDSM paper's",
    }
    played_on = _list_nodes(setup), _list_services(setup.services)
    return render_report(answer, f"{KEPT} {_EMULATED}", text, facts, played_on)


def _describe_settings(configuration: Configuration) -> str:
    """Return the configuration settings that differ from their defaults, as Markdown text."""
    ours, usual = (
        dict(_flatten_document(yaml.safe_load(dump(each))))
        for each in (configuration, Configuration())
    )
    changed = [f"`{key}: {value}`" for key, value in ours.items() if usual.get(key) != value]
    return ", ".join(changed) or "KubeDSM's defaults"


def _flatten_document(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        if isinstance(value, dict):
            yield from _flatten_document(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _list_nodes(setup: Setup) -> Table:
    """Return the table of the cluster's nodes, in which identical nodes share a line."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for node in setup.cluster.nodes:
        tier = setup.configuration.tiers.of(node["metadata"].get("labels") or {})
        capacity = (node.get("status") or {}).get("allocatable") or {}
        kind = (tier or "none", *(str(capacity.get(key, UNKNOWN)) for key in ("cpu", "memory")))
        alike.setdefault(kind, []).append(node["metadata"]["name"])
    lines = [[_abbreviate_names(names), *kind] for kind, names in alike.items()]
    return ["node", "tier", "cpu", "memory"], lines


def _abbreviate_names(names: Sequence[str]) -> str:
    if len(names) <= _FEW:
        return ", ".join(names)
    return f"{names[0]} to {names[-1]}: {len(names)} nodes"


def _list_services(services: Sequence[ServiceSpec]) -> Table:
    return grid(
        "service",
        {service.name: service for service in services},
        {
            "cpu": lambda service: service.cpu,
            "memory": lambda service: service.memory,
            "pods, least to most": lambda service: "{} to {}".format(*service.replicas),
            "requests/s a pod": lambda service: service.target_rate,
            "at once": lambda service: str(service.server.concurrency),
            "takes": lambda service: format_duration(service.server.service_time),
        },
    )
