"""docs/configuration.md says of every key what the code does."""

import re
from pathlib import Path

import msgspec
import pytest

from kubedsm.config.fields import write_section
from kubedsm.config.settings import Configuration, dump, load

DOCS = (Path(__file__).parent.parent / "docs" / "configuration.md").read_text(encoding="utf-8")
#: key and default, as the tables give them
ROWS = dict(re.findall(r"^\| `([\w.]+)` \| `?([^`|]*)`? \|", DOCS, re.MULTILINE))


def keys(content, prefix=""):
    for key, value in content.items():
        if isinstance(value, dict) and key != "*":
            yield from keys(value, "" if key == "services" else f"{prefix}{key}.")
        elif key == "*":
            yield from value
        else:
            yield prefix + key


#: keys that are in no dump of the defaults
UNSET = ["latencyTarget", "mode", "rate", "fairness.namespaces", "optimiser.mode"]
#: too long for a table
LISTED = "loadAware.queries."
KEYS = keys(msgspec.yaml.decode(dump(Configuration())))
DUMPED = sorted(key for key in KEYS if not key.startswith(LISTED))
EXAMPLES = re.findall(r"```yaml\n(.*?)```", DOCS, re.DOTALL)


@pytest.mark.parametrize("key", [*DUMPED, *UNSET])
def test_every_key_has_its_row(key):
    assert key in ROWS


def test_every_row_is_a_key():
    assert set(ROWS) == {*DUMPED, *UNSET}


@pytest.mark.parametrize("key", DUMPED)
def test_the_default_in_the_table_is_the_default(key):
    content = msgspec.yaml.decode(dump(Configuration()))
    section = content["services"]["*"] if key in ("qos", "weight") else content
    *outer, last = key.split(".")
    for name in outer:
        section = section[name]
    section[last] = msgspec.yaml.decode(ROWS[key])
    assert load(msgspec.yaml.encode(content), "docs") == Configuration()


def test_the_examples_are_right():
    for example in EXAMPLES:
        assert load(example, "docs").services


def test_the_queries_that_are_listed_are_the_defaults():
    whole = msgspec.yaml.decode(EXAMPLES[-1])["loadAware"]["queries"]
    assert whole == write_section(Configuration().load_aware.queries)
