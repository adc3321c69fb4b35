"""Histories of books that no order explains are refused, and true ones are accepted."""

import math

import pytest

from kubedsm_lab.chaos.faults import Fault
from kubedsm_lab.chaos.linearizability import Operation, find_contradiction
from kubedsm_lab.chaos.trace import Injection, play
from support.faults import lost_answers_forget_reservations

CAPACITY = {"e1": 2, "e2": 2}


def op(text, times=None, who="a", applied=True):
    """Return the operation `KIND HOLDER NODE AMOUNT`, after all others unless it has times."""
    parts = text.split()
    kind, holder, node, amount = (*parts, *("", "0")[len(parts) - 2 :])
    began, ended = times or (None, None)
    return Operation(who, kind, holder, node, int(amount), began, ended, applied)


def found(*operations):
    for number, each in enumerate(operations):
        if each.began is None:
            each.began, each.ended = 10 * number, 10 * number + 1
    wrong = find_contradiction(operations, CAPACITY)
    return None if wrong is None else f"{wrong.kind} {wrong.holder}"


RESERVED = "reserve p e1 2"


@pytest.mark.parametrize(
    ("operations", "wrong"),
    [
        ([(RESERVED,), ("bind p e1",), ("lookup p e1",), ("release p",)], None),
        ([(RESERVED,), ("release p",), ("release p",)], "release p"),
        ([(RESERVED,), (RESERVED,)], "reserve p"),
        ([(RESERVED,), ("reserve q e1 1",)], "reserve q"),
        ([("bind p e1",)], "bind p"),
        ([("reserve p e2 2",), ("bind p e1",)], "bind p"),
        ([(RESERVED,), ("bind p e1",), ("lookup p",)], "lookup p"),
        # A lost response: released only after a lookup, or the deletion of the pod.
        ([(RESERVED,), ("bind p e1", None, "a", None), ("release p",)], "release p"),
        ([(RESERVED,), ("bind p e1", None, "a", None), ("lookup p",), ("release p",)], None),
        ([(RESERVED,), ("bind p e1", None, "a", None), ("lookup p e1",), ("release p",)], None),
        ([(RESERVED,), ("bind p e1", None, "a", None), ("delete p",), ("release p",)], None),
        ([(RESERVED,), ("bind p e1", None, "a", False), ("release p",)], None),
        # The watch may show a bind before its response.
        ([(RESERVED,), ("bind p e1", (10, 99)), ("lookup p e1",), ("release p",)], None),
        ([(RESERVED,), ("bind p e1", (30, 99)), ("lookup p e1", (10, 20))], "lookup p"),
        # A request without response may have been applied, or not.
        ([(RESERVED,), ("bind p e1", (10, math.inf), "a", None), ("lookup p e1",)], None),
        ([(RESERVED,), ("bind p e1", (10, math.inf), "a", None), ("lookup p",)], None),
        # Two leaders: each with its own books, on one node.
        ([(RESERVED,), ("reserve q e1 1", None, "b")], None),
        (
            [(RESERVED,), ("reserve q e1 1", None, "b"), ("bind p e1",), ("bind q e1", None, "b")],
            "bind q",
        ),
        (
            [(RESERVED,), ("reserve p e2 2", None, "b"), ("bind p e1",), ("bind p e2", None, "b")],
            "bind p",
        ),
    ],
)
def test_a_history_is_linearizable_or_the_operation_is_named(operations, wrong):
    assert found(*(op(*each) for each in operations)) == wrong


LOST = Fault.parse("call:create-pods/binding:2:500")


def test_the_books_of_two_leaders_are_linearizable():
    assert play(Injection("leader-change", (LOST,))).violations == ()


def test_a_reservation_that_is_forgotten_with_a_lost_response_is_found(monkeypatch):
    lost_answers_forget_reservations(monkeypatch)
    violations = play(Injection("leader-change", (LOST,))).violations
    assert any("the books are not linearizable: kubedsm-0-1 release" in v for v in violations)
