"""docs/scheduling-rules.md names the rules there are, in the order in which they are asked."""

import re
from pathlib import Path

import pytest

from kubedsm.plugins.plugin import never
from kubedsm.plugins.plugins import BY_NAME, PLUGINS

DOCS = (Path(__file__).parent.parent / "docs" / "scheduling-rules.md").read_text(encoding="utf-8")
NAMED = re.findall(r"^\| `(\w+)`", DOCS, re.MULTILINE)


def test_every_rule_has_its_row_in_order():
    assert [plugin.name for plugin in PLUGINS] == NAMED
    assert len(BY_NAME) == len(PLUGINS)


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
def test_every_rule_refuses_and_it_is_known_what_would_help(plugin):
    assert plugin.pre_enqueue or plugin.pre_filter or plugin.filter
    # What is about the pod alone, no other change ends.
    assert (plugin.hint is never) is (plugin.filter is None)
    assert plugin.advice
    # The amounts are known of room alone.
    assert ("{lacking}" in plugin.advice) is (plugin.name == "NodeResourcesFit")
    assert bool(plugin.score) is (plugin.weight > 0)
