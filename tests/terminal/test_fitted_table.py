"""A table is never wider than its room, and breaks no number and no name."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.progress_bar import ProgressBar
from rich.text import Text

from kubedsm.terminal.fitted_table import Column, FittedTable, Look, table
from support.printed import printed

names = st.text("abcdefgh-/", min_size=1, max_size=20)
sentences = st.lists(st.text("abc,", min_size=1, max_size=8), min_size=2, max_size=12).map(" ".join)
numbers = st.integers(0, 10**9).map(lambda thousandths: f"{thousandths / 1000:.3f}")
kinds = st.lists(st.sampled_from(["name", "number", "sentence"]), min_size=1, max_size=7)
CELLS = {"name": names, "number": numbers, "sentence": sentences}


@given(kinds, st.integers(60, 200), st.sampled_from(get_args(Look)), st.data())
def test_what_is_shown_is_whole(of, width, look, data):
    headings = [f"{kind} {at}" for at, kind in enumerate(("name", *of))]
    rows = data.draw(
        st.lists(st.tuples(names, *(CELLS[kind] for kind in of)), min_size=1, max_size=4)
    )
    said = printed(
        table(
            headings,
            rows,
            numbers=[name for name in headings if name.startswith("number")],
            look=look,
        ),
        width,
    )
    lines = said.splitlines()
    assert max(map(len, lines)) <= width
    hidden = said.partition("Too narrow for: ")[2].replace("\n", " ")
    for row in rows:
        for heading, cell in zip(headings, row, strict=True):
            whole = any(cell in line for line in lines)
            kept = f"{heading}," in hidden or f"{heading}." in hidden
            left_out = look == "plain" and not any(heading in line for line in lines)
            assert whole or kept or left_out or heading.startswith("sentence")


HEADINGS = ("pod", "from", "gain", "why it is not taken")
ROWS = [("shop/cart-654797457d-7577s", "cloud-1", "0.250", "nothing is gained by that")]


@pytest.mark.parametrize(
    ("width", "hidden"), [(80, ""), (57, "from"), (45, "from, gain"), (20, "from, gain")]
)
def test_columns_of_least_use_go_first_and_sentences_stay(width, hidden):
    said = printed(table(HEADINGS, ROWS, numbers=("gain",), least=("from",)), width)
    assert said.partition("Too narrow for: ")[2].replace("\n", " ").strip(" .") == hidden
    assert ("shop/cart-654797457d-7577s" in said) == (width > 20)


def test_brackets_are_no_markup_and_long_code_is_folded_before_a_column_is_left_out():
    assert "[bold]x" in printed(table(("what",), [("[bold]x",)]), 80)
    row = ("queries.cpu", f"sum by(pod) {'rate(' * 20}", "default")
    said = printed(table(("key", "value", "from"), [row]), 80)
    assert "default" in said
    assert "Too narrow" not in said

    def lines(above_line):
        made = table(("what",), [("a",), ("b",)], look="compact", above_line=above_line)
        return len(printed(made, 80).splitlines())

    assert [lines(above) for above in (0, 1, 2)] == [lines(0), lines(0) + 1, lines(0)]


def test_columns_whose_cells_will_need_room_stay_where_they_are():
    def made(count):
        return FittedTable(
            [
                Column("ready", [Text(f"{count} of {count}", style="green")], least=8),
                Column("", [ProgressBar(width=4, completed=100)], use=0),
                Column("pods", ["a"]),
            ],
            look="plain",
        )

    rows = [printed(made(count), 30).splitlines()[1] for count in (1, 10)]
    assert [row.index("a") for row in rows] == [16, 16]
    # Eight columns, two between, and the heading of the last: without the bar.
    assert printed(made(10), 14).splitlines()[1].rstrip() == "10 of 10  a"
