"""docs/scheduling-rules.md names the rules there are, in the order in which they are asked."""

import re
from pathlib import Path

from kubedsm.core.rules.table import DYNAMIC_RULES, STATIC_RULES
from kubedsm.why.answers import CHANGES

DOCS = (Path(__file__).parent.parent / "docs" / "scheduling-rules.md").read_text(encoding="utf-8")
NAMED = re.findall(r"^\| `(\w+)`", DOCS, re.MULTILINE)


def test_every_rule_has_its_row_in_order():
    # Nodes ruled out by name come first of all, under a name that comes again.
    by_node = [name for name, _ in (*STATIC_RULES[1:], *DYNAMIC_RULES)]
    assert ["SchedulingGates", *by_node, "DynamicResources"] == NAMED


def test_what_would_help_is_known_of_every_rule():
    assert set(NAMED) - set(CHANGES) == {"Tier", "NodeResourcesFit"}  # said with the node at hand
