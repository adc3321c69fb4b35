"""Parts of the documentation that are written from the code.

    python docs/generate.py             # write every part, and the emulator's field types
    python docs/generate.py --check     # exit code 1 if a page is out of date

A page names a part between two comments, `<!-- generated: NAME -->` and `<!-- end: NAME -->`.
`PARTS` has the function behind each name.
"""

import ast
import itertools
import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
import networkx as nx
from kubernetes_asyncio.client import models
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric

from kubedsm.cli.main import MODULES, commands
from kubedsm.config.fields import write_section
from kubedsm.config.load_aware import DEMAND_QUERIES
from kubedsm.config.settings import Configuration, schema
from kubedsm.kube.calls.permissions import FEATURES, Rule, rules
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.sites import NOTHING_AWAY
from kubedsm.observability.gauges import families
from kubedsm.observability.health_rules import RULES
from kubedsm.observability.instruments import Instruments
from kubedsm.observability.reading import Leadership, Reading
from kubedsm.process.clock import SystemClock
from kubedsm.process.http_limits import DIAGNOSTICS, METRICS, PAGE
from kubedsm.scheduling.scheduling_queue import QueueStatistics
from kubedsm_lab.emulator.api.decoding import BODIES, FIELD_TYPES, model_of
from kubedsm_lab.emulator.api.resources import SERVED
from loadgen.cli import loadgen
from plans.steps import TERMINAL, TRANSITIONS, StepState

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PART = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- end: \2 -->\n)", re.DOTALL)

#: meaning of each configuration key, by section
MEANINGS: dict[str, dict[str, str]] = tomllib.loads((DOCS / "configuration.toml").read_text())
#: section of the keys of one entry of `services`
SERVICE = "services.NAME"
#: keys with values too long for a table
LISTED = "loadAware.queries."

#: packages next to kubedsm
NEIGHBOURS = ("plans", "loadgen")


def table(head: str, rows: list[str]) -> str:
    columns = head.count("|") - 1
    return "\n".join([head, "|" + "---|" * columns, *rows]) + "\n"


# Configuration


def list_keys(properties: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each dotted key with its JSON Schema; keys of `services` without a prefix."""
    for key, given in properties.items():
        if key == "services":
            yield from list_keys(given["additionalProperties"]["properties"], f"{SERVICE}.")
        elif "properties" in given:
            yield from list_keys(given["properties"], f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", given


def format_default(given: dict[str, Any]) -> str:
    default = given.get("default")
    if default is None or default == {}:
        return "none"
    return "`" + (json.dumps(default).replace('"', "") or '""') + "`"


def format_allowed(given: dict[str, Any]) -> str:
    if "enum" in given:
        words = [word for word in given["enum"] if word not in {None, False}]
        return ", ".join(f"`{word}`" for word in words)
    if "anyOf" in given:
        return f"list: {format_allowed(given['anyOf'][0])}"
    if "additionalProperties" in given and "properties" not in given:
        return f"mapping to {format_allowed(given['additionalProperties'])}"
    if "minimum" in given:
        return f"{given['minimum']} to {given['maximum']}"
    if "properties" in given:
        return ", ".join(f"`{key}`" for key in given["properties"])
    if "description" in given:
        text = given["description"].partition(", such as")[0]
        return re.sub(r"^a duration between (\S+) and (\S+)$", r"\1 to \2", text)
    return "`true`, `false`"


def write_configuration() -> str:
    sections: dict[str, list[str]] = {}
    for key, given in list_keys(schema()["properties"]):
        if key.startswith(LISTED):
            continue
        section, _, name = key.rpartition(".")
        meaning = MEANINGS[section or "document"][name]
        if "." in section and section != SERVICE:  # rows of the outermost section
            section, _, name = key.partition(".")
        row = f"| `{name}` | {format_default(given)} | {format_allowed(given)} | {meaning} |"
        sections.setdefault(section, []).append(row)
    head = "| key | default | allowed | meaning |"
    parts = [table(head, sections.pop(""))]
    parts += [f"### `{name}`\n\n{table(head, rows)}" for name, rows in sections.items()]
    return "\n".join(parts)


def write_demand_queries() -> str:
    return f"```yaml\n{msgspec.yaml.encode(DEMAND_QUERIES).decode()}```\n"


def write_queries() -> str:
    queries = {"loadAware": {"queries": write_section(Configuration().load_aware.queries)}}
    return f"```yaml\n{msgspec.yaml.encode(queries).decode()}```\n"


# Commands

ELECTION = "--leader-elect"
#: module of the commands that check and inspect an installation
INSPECTING = "kubedsm.cli.installation"
OPERATING = {"run", "config", "rbac", "completion", "approve", "opt-in", "opt-out", "uninstall"}
LAB = tomllib.loads((ROOT / "lab" / "pyproject.toml").read_text())["project"]
LAB_COMMANDS = LAB["entry-points"]["kubedsm.commands"]


def list_commands(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[tuple[str, click.Command, click.Context]]:
    context = click.Context(command, info_name=name.rpartition(" ")[2], parent=parent)
    yield name, command, context
    if isinstance(command, click.Group):
        for word in command.list_commands(context):
            inner = command.get_command(context, word)
            if inner is not None:
                yield from list_commands(inner, f"{name} {word}", context)


def escape_cell(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;").replace("\n", " ")


def write_command(name: str, command: click.Command, context: click.Context) -> str:
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [f"## {name}\n", f"`{name} {usage}`\n", f"{_prose(command.help or '')}\n"]
    records = [each.get_help_record(context) for each in command.params]
    shown = [record for record in records if record]
    if name != "kubedsm run" and any(name.startswith(ELECTION) for name, _ in shown):
        shown = [record for record in shown if not record[0].startswith(ELECTION)]
        shown.append((f"{ELECTION} ...", "As those of `kubedsm run`."))
    rows = [f"| `{escape_cell(names)}` | {escape_cell(text)} |" for names, text in shown]
    if rows:
        parts.append(table("| option | meaning |", rows))
    return "\n".join(parts)


def _prose(text: str) -> str:
    """Return a help text without click's marks and line breaks."""
    paragraphs = text.replace("\b", "").strip().split("\n\n")
    return "\n\n".join(" ".join(each.split()) for each in paragraphs).replace("<", "&lt;")


def write_commands(program: click.Command, name: str, part: str = "") -> str:
    """Return the options of a program's commands, or of those that belong to one part."""
    found = [
        each
        for each in list_commands(program, name)
        if not part or find_part(*each[0].split()[1:2]) == part
    ]
    return "\n".join(write_command(*each) for each in found if each[1].params or each[0] != name)


def find_part(command: str = "") -> str:
    """Return the part that has a command of `kubedsm`; without a command, the program's own."""
    if not command or command in OPERATING:
        return "operate"
    if command in LAB_COMMANDS:
        return "bench" if command == "bench" else "lab"
    return "installation" if MODULES.get(command, "").startswith(INSPECTING) else "inspect"


# Metrics

NOTHING = Reading(
    snapshot=ClusterMirror().snapshot(),
    policy=Configuration().policy,
    queue=QueueStatistics(0, 0, 0),
    rejected_by=Counter(),
    watches={},
    caught_lately={},
    caught={},
    events_lost=0,
    paused=False,
    spreading_services=0,
    away=NOTHING_AWAY,
    plans=0,
    moves=0,
    leadership=Leadership(),
    generation=1,
    configured_at=0.0,
    configuration_valid=True,
    now=0.0,
)


def write_health() -> str:
    rows = []
    for rule in RULES:
        alert = f"[{rule.alert}](../how-to/respond-to-alerts.md#{rule.alert.lower()})"
        state = "notice" if rule.state == "healthy" else rule.state
        rows.append(f"| {rule.name} | {state} | {rule.when} | {alert if rule.alert else ''} |")
    return table("| rule | state | violated if | alert |", rows)


def list_metrics() -> Iterator[tuple[str, str, str, str]]:
    """Yield name, type, labels and help of each metric."""
    registry = Instruments(SystemClock(), "kubedsm", "").registry
    for collector in registry._collector_to_names:  # noqa: SLF001 - no public list
        if isinstance(collector, MetricWrapperBase):
            [metric] = collector.collect()
            yield _describe(metric, tuple(collector._labelnames))  # noqa: SLF001 - as above
    for metric in families(NOTHING):
        yield _describe(metric, tuple(getattr(metric, "_labelnames", ())))


def _describe(metric: Metric, labels: tuple[str, ...]) -> tuple[str, str, str, str]:
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    return name, metric.type, ", ".join(labels), metric.documentation


def write_metrics() -> str:
    rows = [
        f"| `{name}` | {kind} | {labels} | {escape_cell(text)} |"
        for name, kind, labels, text in sorted(list_metrics())
    ]
    return table("| metric | type | labels | meaning |", rows)


# Rights, limits


def format_rule(rule: Rule) -> str:
    group = f".{rule.group}" if rule.group else ""
    resources = ", ".join(f"{name}{group}" for name in rule.resources)
    return f"{' '.join(rule.verbs)} {resources}{' (own namespace)' if rule.own else ''}"


def write_rights() -> str:
    rows = [
        f"| `{feature.name}` | {escape_cell(feature.does)} | "
        + "<br>".join(f"`{format_rule(rule)}`" for rule in rules([feature]))
        + " |"
        for feature in FEATURES
    ]
    return table("| feature | purpose | rights |", rows)


def write_limits() -> str:
    rows = [
        f"| {label} | "
        + " | ".join(f"{getattr(limits, name) / unit:g}" for limits in (METRICS, PAGE, DIAGNOSTICS))
        + " |"
        for label, name, unit in (
            ("connections", "connections", 1),
            ("connections of one client address", "per_address", 1),
            ("size of one request, Ki", "request_bytes", 1024),
            ("seconds until a request's headers are complete", "header_timeout", 1),
            ("seconds between requests", "idle_timeout", 1),
            ("seconds without progress of a response", "write_timeout", 1),
        )
    ]
    return table("| limit | metrics and probes | page | diagnostics |", rows)


# Packages


def list_containers() -> dict[str, list[str]]:
    """Return the packages of each container with layers, the highest layer first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found: dict[str, list[str]] = {}
    for contract in project["tool"]["importlinter"]["contracts"]:
        for container in contract.get("containers", ()):
            layers = [re.split(r"\s*\|\s*", layer) for layer in contract["layers"]]
            names = [name for name in itertools.chain(*layers) if name != "__main__"]
            found[container] = [f"{container}.{name}" for name in names]
    found["kubedsm"] = [*found.pop("kubedsm_lab"), *found["kubedsm"], *NEIGHBOURS]
    return found


def shorten(package: str) -> str:
    return package.removeprefix("kubedsm.")


def find_source(name: str) -> Path:
    root = ROOT / "lab" if name.startswith("kubedsm_lab") else ROOT
    path = root.joinpath(*name.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def read_summary(name: str) -> str:
    docstring = ast.get_docstring(ast.parse(find_source(name).read_text())) or ""
    return docstring.partition("\n")[0]


def list_imports(name: str) -> Iterator[str]:
    """Yield the full name of each import in a package."""
    home = find_source(name)
    for path in sorted(home.parent.rglob("*.py")) if home.name == "__init__.py" else [home]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            elif isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value  # a module imported lazily, by name


def list_arrows(packages: list[str]) -> list[tuple[str, str]]:
    """Return the imports between packages, without those implied by others."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(packages)
    for package in packages:
        found = list(list_imports(package))
        graph.add_edges_from(
            (package, other)
            for other in packages
            if other != package and any(f"{name}.".startswith(f"{other}.") for name in found)
        )
    edges = nx.transitive_reduction(graph).edges
    return sorted(edges, key=lambda edge: [*map(packages.index, edge)])


def write_diagram() -> str:
    """Draw a Mermaid flowchart; an arrow leads from the importing package to the imported one."""
    packages = list_containers()["kubedsm"]
    lines = ["flowchart TD"]
    lines += [f'    {shorten(a)}["{shorten(a)}"]' for a in packages]
    lines += [f"    {shorten(a)} --> {shorten(b)}" for a, b in list_arrows(packages)]
    return "```mermaid\n" + "\n".join(lines) + "\n```\n"


def write_packages() -> str:
    found = list_containers()
    names = [name for one in found["kubedsm"] for name in (one, *found.get(one, ()))]
    rows = [f"| `{shorten(name)}` | {read_summary(name)} |" for name in names]
    return table("| package | content |", rows)


# Pages


def write_states() -> str:
    """Return the transition table of plan steps as a Mermaid state diagram."""
    edges: dict[tuple[StepState, StepState], list[str]] = {}
    for (state, trigger), after in TRANSITIONS.items():
        edges.setdefault((state, after), []).append(trigger)
    lines = ["stateDiagram-v2", f"    [*] --> {StepState.WAITING}"]
    lines += [f"    {a} --> {b}: {' / '.join(triggers)}" for (a, b), triggers in edges.items()]
    lines += [f"    {state} --> [*]" for state in StepState if state in TERMINAL]
    return "\n".join(["```mermaid", *lines, "```", ""])


PARTS: dict[str, Callable[[], str]] = {
    "configuration": write_configuration,
    "queries": write_queries,
    "demand-queries": write_demand_queries,
    **{
        part: partial(write_commands, commands, "kubedsm", part)
        for part in ("operate", "inspect", "installation", "lab", "bench")
    },
    "loadgen": partial(write_commands, loadgen, "loadgen"),
    "metrics": write_metrics,
    "health": write_health,
    "rights": write_rights,
    "limits": write_limits,
    "diagram": write_diagram,
    "packages": write_packages,
    "plan-states": write_states,
}


def write_parts(text: str) -> str:
    """Return the page with each part as the code has it now."""
    return PART.sub(lambda found: f"{found[1]}{PARTS[found[2]]()}{found[3]}", text)


def list_fields(names: list[str]) -> dict[str, dict[str, str]]:
    """Return the types of the fields of each model, by the library's names for them."""
    found: dict[str, dict[str, str]] = {}
    while names:
        name = names.pop()
        model = getattr(models, name, None)
        if model is None or name in found:
            continue
        types = model.openapi_types
        found[name] = {model.attribute_map[key]: kind for key, kind in sorted(types.items())}
        names += [word for kind in types.values() for word in re.findall(r"\w+", kind)]
    return dict(sorted(found.items()))


def write_field_types() -> None:
    """Write the file by which the emulated API server checks objects.

    Importing the library there would take half a second.
    """
    found = list_fields([model_of(resource) for resource in (*SERVED, *BODIES)])
    lines = (f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in found.items())
    Path(FIELD_TYPES).write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main(*arguments: str) -> int:
    stale = []
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text()
        now = write_parts(text)
        if now != text:
            stale.append(page)
            if "--check" not in arguments:
                page.write_text(now)
    if "--check" in arguments:
        return bool(stale)
    write_field_types()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
