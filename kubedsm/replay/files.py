"""The files of a report: for machines, for terminals and wikis, and a page with pictures."""

from collections.abc import Callable, Mapping
from pathlib import Path

import click
import orjson

from kubedsm.replay.page import page as as_page
from kubedsm.replay.report import Report, plain_tables
from loadgen.whole_files import write_whole

RESULTS = "results.json"
#: PNG files by name
Pictures = Mapping[str, bytes]


def as_json(found: Report) -> bytes:
    return orjson.dumps(found) + b"\n"


def write(found: Report, out: Path, tables: str, page: str = "") -> None:
    """Into a folder that is there. Raises OSError.

    tables: Markdown. page: the title of a page with pictures; without one there is none.
    """
    put(out, as_json(found), tables)
    if page:
        put_page(out, page, plain_tables(found), lambda: pictures(found))


def put(out: Path, results: bytes, tables: str) -> None:
    write_whole(out / "tables.md", tables)
    write_whole(out / RESULTS, results)


def put_page(out: Path, title: str, text: str, draw: Callable[[], Pictures] | None = None) -> None:
    """Pictures, if any are to be drawn, and the page of Markdown and of them."""
    pictures = drawn(draw) if draw is not None else {}
    for name, content in pictures.items():
        write_whole(out / name, content)
    write_whole(out / "index.html", as_page(title, text, pictures))


def drawn(draw: Callable[[], Pictures]) -> Pictures:
    """None, and a line that says why, where the drawing lacks matplotlib."""
    try:
        return draw()
    except ModuleNotFoundError:
        how = "pip install 'kubedsm[plots]'"
        click.echo(f"kubedsm: no pictures without matplotlib: {how}", err=True)
        return {}


def pictures(found: Report) -> Pictures:
    from kubedsm.replay.plots import pictures  # noqa: PLC0415 - matplotlib is an extra

    return pictures(found)
