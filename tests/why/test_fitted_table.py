"""A table is never wider than its room, and breaks no number and no name."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from kubedsm.why.table import table

names = st.text("abcdefgh-/", min_size=1, max_size=20)
sentences = st.lists(st.text("abc,", min_size=1, max_size=8), min_size=2, max_size=12).map(" ".join)
numbers = st.integers(0, 10**9).map(lambda thousandths: f"{thousandths / 1000:.3f}")
kinds = st.lists(st.sampled_from(["name", "number", "sentence"]), min_size=1, max_size=7)
CELLS = {"name": names, "number": numbers, "sentence": sentences}


def shown(made, width):
    told = io.StringIO()
    Console(file=told, width=width).print(made)
    return told.getvalue()


@given(kinds, st.integers(60, 200), st.data())
def test_what_is_shown_is_whole(of, width, data):
    headings = [f"{kind} {at}" for at, kind in enumerate(("name", *of))]
    rows = data.draw(
        st.lists(st.tuples(names, *(CELLS[kind] for kind in of)), min_size=1, max_size=4)
    )
    said = shown(
        table(headings, rows, numbers=[name for name in headings if name.startswith("number")]),
        width,
    )
    lines = said.splitlines()
    assert max(map(len, lines)) <= width
    hidden = said.partition("Too narrow for: ")[2].replace("\n", " ")
    for row in rows:
        for heading, cell in zip(headings, row, strict=True):
            whole = any(cell in line for line in lines)
            kept = f"{heading}," in hidden or f"{heading}." in hidden
            assert whole or kept or heading.startswith("sentence")


HEADINGS = ("pod", "from", "gain", "why it is not taken")
ROWS = [("shop/cart-654797457d-7577s", "cloud-1", "0.250", "nothing is gained by that")]


@pytest.mark.parametrize(
    ("width", "hidden"), [(80, ""), (57, "from"), (45, "from, gain"), (20, "from, gain")]
)
def test_columns_of_least_use_go_first_and_sentences_stay(width, hidden):
    said = shown(table(HEADINGS, ROWS, numbers=("gain",), least=("from",)), width)
    assert said.partition("Too narrow for: ")[2].replace("\n", " ").strip(" .") == hidden
    assert ("shop/cart-654797457d-7577s" in said) == (width > 20)


def test_brackets_in_a_cell_are_no_markup():
    assert "[bold]x" in shown(table(("what",), [("[bold]x",)]), 80)
