"""Output of an explanation of a pod, node or migration: text for a terminal, and JSON."""

from collections.abc import Iterator
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from kubedsm.explain.explanation import Explanation, Section, plain_text
from kubedsm.terminal.fitted_table import table


def as_json(explanation: Explanation[Any]) -> dict[str, Any]:
    """Render an explanation as JSON: its facts, with title and sentences as plain text."""
    return {
        **msgspec.to_builtins(explanation.facts),
        "title": explanation.title,
        "sentences": [plain_text(line) for line in explanation.lines],
    }


def render_text(explanation: Explanation[Any]) -> RenderableType:
    """Render an explanation for a terminal: sentences, then each section."""
    sentences = (Text(plain_text(line)) for line in explanation.lines)
    sections = (each for part in explanation.sections for each in _render_section(part))
    return Group(Text(explanation.title, style="bold"), *sentences, *sections)


def _render_section(section: Section) -> Iterator[RenderableType]:
    lines = [plain_text(line) for line in section.lines]
    if section.table is None:
        if lines or section.code:
            yield Text(f"\n{section.title}", style="bold")
    else:
        rows = [[plain_text(cell) for cell in row] for row in section.table.rows]
        yield Text("")
        yield table(section.table.headings, rows, title=section.title)
    yield from (Text(line) for line in lines)
    if section.code:
        yield Text(section.code)
