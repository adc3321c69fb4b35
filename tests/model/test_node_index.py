"""The index of nodes, which lives as long as no node changes, keeps few of the tenants' keys."""

import weakref

import pytest

from kubedsm.model.model import NodeName, Resources, SchedulingRules
from kubedsm.model.node_index import MOST_CLASSES, MOST_COLUMNS, FreeCapacity, NodeIndex
from support.installations import made_node

NODES = NodeIndex.of([made_node("e1"), made_node("e2")])


def restricted_to(value):
    return SchedulingRules(node_selector=(("disk", value),))


ASKED = {
    "label": (NODES.label, MOST_COLUMNS),
    "allocatable": (NODES.size, MOST_COLUMNS),
    "node selector": (lambda value: NODES.match_affinity(restricted_to(value)), MOST_CLASSES),
}


@pytest.mark.parametrize("what", ASKED)
def test_few_keys_that_tenants_choose_are_kept(what):
    ask, most = ASKED[what]
    answers = [weakref.ref(ask(f"example.com/x{number}")) for number in range(2 * most + 1)]
    assert 0 < sum(answer() is not None for answer in answers) <= most


def test_rules_that_do_not_concern_nodes_share_an_answer():
    first, other = (SchedulingRules(resource_claims=(name,)) for name in "ab")
    assert NODES.match_affinity(first) is NODES.match_affinity(other)


def test_free_capacity_that_changes_keeps_few_columns():
    free, names = {NodeName("e1"): Resources(cpu=1)}, [f"example.com/x{n}" for n in range(100)]
    capacity = FreeCapacity(NodeIndex.of([made_node("e1")]), free)
    columns = [weakref.ref(capacity.now(free, ()).column(name)) for name in names]
    assert not any(column() is not None for column in columns)
    kept = [weakref.ref(capacity.column(name)) for name in names]
    capacity = capacity.now(free, ())
    assert not any(column() is not None for column in kept)
