"""The files of a report: for machines, for terminals and wikis, and a page with pictures."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import click
import orjson

from kubedsm.replay.page import page as as_page
from kubedsm.replay.report import Report

RESULTS = "results.json"


def as_json(found: Report) -> bytes:
    return orjson.dumps(found) + b"\n"


def write(found: Report, out: Path, tables: str, page: str = "") -> None:
    """Into a folder that is there. Raises OSError.

    tables: Markdown. page: the title of a page with pictures; without one there is none.
    """
    (out / RESULTS).write_bytes(as_json(found))
    (out / "tables.md").write_text(tables, encoding="utf-8")
    if not page:
        return
    pictures = drawn(partial(_pictures, found))
    for name, content in pictures.items():
        (out / name).write_bytes(content)
    (out / "index.html").write_text(as_page(found, pictures, page), encoding="utf-8")


def drawn(draw: Callable[[], Mapping[str, bytes]]) -> Mapping[str, bytes]:
    """PNG files by name; none, and a line that says why, where the drawing lacks matplotlib."""
    try:
        return draw()
    except ModuleNotFoundError:
        how = "pip install 'kubedsm[plots]'"
        click.echo(f"kubedsm: no pictures without matplotlib: {how}", err=True)
        return {}


def _pictures(found: Report) -> Mapping[str, bytes]:
    from kubedsm.replay.plots import pictures  # noqa: PLC0415 - matplotlib is an extra

    return pictures(found)
