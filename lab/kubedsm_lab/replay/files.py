"""The files of a report: for machines, for terminals and wikis, and a page with pictures."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import orjson

from kubedsm.terminal.echo import escape_json
from kubedsm.terminal.whole_files import write_whole
from kubedsm_lab.replay.page import page as as_page
from kubedsm_lab.replay.plots import pictures
from kubedsm_lab.replay.report import Report, policies_of

RESULTS = "results.json"
#: SVG files by name
Pictures = Mapping[str, bytes]


def as_json(found: Report) -> bytes:
    return escape_json(orjson.dumps(found)) + b"\n"


def write(found: Report, out: Path, title: str, text: str) -> None:
    """Into a folder that is there. Raises OSError. text: Markdown."""
    put(out, as_json(found), text)
    put_page(out, title, text, pictures(found), policies_of(found["means"]))


def put(out: Path, results: bytes, tables: str) -> None:
    write_whole(out / "tables.md", tables)
    write_whole(out / RESULTS, results)


def put_page(
    out: Path,
    title: str,
    text: str,
    pictures: Pictures | None = None,
    policies: Iterable[str] = (),
) -> None:
    """Pictures, if there are any, and the page of Markdown and of them."""
    put_pictures(out, pictures or {})
    write_whole(out / "index.html", as_page(title, text, pictures, policies))


def put_pictures(out: Path, pictures: Pictures) -> None:
    for name, content in pictures.items():
        write_whole(out / name, content)
