"""Generated parts of the pages are up to date, and have an entry for everything."""

import re
import runpy
from pathlib import Path

import msgspec
import pytest

from kubedsm.config.settings import Configuration, dump, load

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATE = runpy.run_path(str(DOCS / "generate.py"))
CONFIGURATION = (DOCS / "reference" / "configuration.md").read_text()


@pytest.mark.parametrize(
    "page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS))
)
def test_generated_parts_are_current(page):
    assert GENERATE["write_parts"](page.read_text()) == page.read_text(), (
        "run `python docs/generate.py`"
    )


def test_every_part_is_on_a_page():
    found = [
        name
        for page in DOCS.rglob("*.md")
        for name in re.findall(r"<!-- generated: (\S+) -->", page.read_text())
    ]
    assert sorted(found) == sorted(GENERATE["PARTS"])


def test_every_meaning_belongs_to_a_key():
    keys = {key for key, _ in GENERATE["list_keys"](GENERATE["schema"]()["properties"])}
    described = {
        f"{section}.{name}".removeprefix("document.")
        for section, names in GENERATE["MEANINGS"].items()
        for name in names
    }
    assert described == {key for key in keys if not key.startswith(GENERATE["LISTED"])}


def test_a_default_in_the_tables_is_the_default():
    """A document of all defaults, as the tables show them, loads as the defaults."""
    document = msgspec.yaml.decode(dump(Configuration()))
    section = document
    for line in CONFIGURATION.partition("## Keys")[2].splitlines():
        if line.startswith("### `"):
            section = document
            for name in line[5:-1].replace("services.NAME", "services.*").split("."):
                section = section.setdefault(name, {})
        elif row := re.match(r"\| `(\w+)` \| `([^`]*)` \|", line):
            section[row[1]] = msgspec.yaml.decode(row[2])
    assert load(msgspec.yaml.encode(document), "docs") == Configuration()
