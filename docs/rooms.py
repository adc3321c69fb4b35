"""The picture and the table of rooms in architecture.md, from the tree as it is.

    python docs/rooms.py        # writes both anew

Rooms and their order are those of the import contracts (pyproject.toml), what lives in them is the
first sentence of their docstrings, and the arrows are the imports that there are. An arrow that
follows from others is left out.
"""

import ast
import itertools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "architecture.md"
#: packages next to kubedsm
BESIDE = ("plans", "loadgen")


def containers() -> dict[str, list[str]]:
    """The rooms of each package that has any, from the uppermost down."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found: dict[str, list[str]] = {}
    for contract in project["tool"]["importlinter"]["contracts"]:
        for container in contract.get("containers", ()):
            layers = [re.split(r"\s*\|\s*", layer) for layer in contract["layers"]]
            names = [name for name in itertools.chain(*layers) if name != "__main__"]
            found[container] = [f"{container}.{name}" for name in names]
    found["kubedsm"] = [*found.pop("kubedsm_lab"), *found["kubedsm"], *BESIDE]
    return found


def short(room: str) -> str:
    return room.removeprefix("kubedsm.")


def source(name: str) -> Path:
    root = ROOT / "lab" if name.startswith("kubedsm_lab") else ROOT
    path = root.joinpath(*name.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def summary(name: str) -> str:
    """What lives there: the first line of its docstring."""
    return (ast.get_docstring(ast.parse(source(name).read_text())) or "").partition("\n")[0]


def imports(name: str) -> Iterator[str]:
    """All that is imported in a room, by full name."""
    home = source(name)
    for path in sorted(home.parent.rglob("*.py")) if home.name == "__init__.py" else [home]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            elif isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value  # a module that is imported by name, once it is asked for


def arrows(rooms: list[str]) -> list[tuple[str, str]]:
    """Which of them import which, but for what follows from other arrows."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(rooms)
    for room in rooms:
        found = list(imports(room))
        graph.add_edges_from(
            (room, other)
            for other in rooms
            if other != room and any(f"{name}.".startswith(f"{other}.") for name in found)
        )
    return sorted(nx.transitive_reduction(graph).edges, key=lambda edge: [*map(rooms.index, edge)])


def diagram() -> str:
    """A Mermaid flowchart; an arrow goes from what imports to what is imported."""
    found = containers()
    lines = ["flowchart TD", *_drawn("kubedsm", found, 1)]
    for rooms in found.values():
        lines += [f"    {short(a)} --> {short(b)}" for a, b in arrows(rooms)]
    return "\n".join(lines) + "\n"


def _drawn(container: str, found: dict[str, list[str]], depth: int) -> Iterator[str]:
    for room in found[container]:
        label = room.rpartition(".")[2]
        if room in found:
            yield f'{"    " * depth}subgraph {short(room)}["{label}"]'
            yield from _drawn(room, found, depth + 1)
            yield f"{'    ' * depth}end"
        else:
            yield f'{"    " * depth}{short(room)}["{label}"]'


def table() -> str:
    found = containers()
    rows = []
    for room in found["kubedsm"]:
        rows += [room, *found.get(room, ())]
    body = [f"| `{short(room)}` | {summary(room)} |" for room in rows]
    return "\n".join(["| room | what lives there |", "|---|---|", *body]) + "\n"


def written(document: str) -> str:
    """The document with its picture and its table as they are now."""
    for name, content in (("picture", f"```mermaid\n{diagram()}```\n"), ("table", table())):
        begin, end = f"<!-- {name}: python docs/rooms.py -->\n", f"<!-- end of {name} -->\n"
        before, _, rest = document.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            raise ValueError(f"no place for the {name}")
        document = f"{before}{begin}{content}{end}{after}"
    return document


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text()))
