"""The files of a report: for machines, for terminals and wikis, and a page with pictures."""

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
    drawn = _pictures(found)
    for name, content in drawn.items():
        (out / name).write_bytes(content)
    (out / "index.html").write_text(as_page(found, drawn, page), encoding="utf-8")


def _pictures(found: Report) -> dict[str, bytes]:
    try:
        from kubedsm.replay.plots import pictures  # noqa: PLC0415 - matplotlib is an extra
    except ModuleNotFoundError:
        how = "pip install 'kubedsm[plots]'"
        click.echo(f"kubedsm: no pictures without matplotlib: {how}", err=True)
        return {}
    return pictures(found)
