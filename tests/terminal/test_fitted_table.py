"""Tables that break no number and no name, and files that are whole or as they were."""

import os
import re
import resource
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.progress_bar import ProgressBar
from rich.text import Text

from kubedsm.terminal.fitted_table import Column, FittedTable, Look, table
from kubedsm.terminal.whole_files import whole_file, write_whole
from kubedsm_lab.output_files import append_whole, folder_for
from support.printed import printed

names = st.text("abcdefgh-/", min_size=1, max_size=20)
sentences = st.lists(st.text("abc,", min_size=1, max_size=8), min_size=2, max_size=12).map(" ".join)
numbers = st.integers(0, 10**9).map(lambda thousandths: f"{thousandths / 1000:.3f}")
kinds = st.lists(st.sampled_from(["name", "number", "sentence"]), min_size=1, max_size=7)
CELLS = {"name": names, "number": numbers, "sentence": sentences}


def hidden_columns(said):
    text = " ".join(said.split()).partition("are too narrow for ")[2]
    return text.partition(":")[0]


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
    hidden = f"{hidden_columns(said)},"
    for row in rows:
        for heading, cell in zip(headings, row, strict=True):
            whole = any(cell in line for line in lines)
            kept = f"{heading}," in hidden
            left_out = look == "plain" and not any(heading in line for line in lines)
            assert whole or kept or left_out or heading.startswith("sentence")


HEADINGS = ("pod", "from", "gain", "why it is not taken")
ROWS = [("shop/cart-654797457d-7577s", "cloud-1", "0.250", "nothing is gained by that")]


@pytest.mark.parametrize(
    ("width", "hidden"), [(80, ""), (57, "from"), (45, "from, gain"), (20, "from, gain")]
)
def test_columns_of_least_use_go_first_and_sentences_stay(width, hidden):
    said = printed(table(HEADINGS, ROWS, numbers=("gain",), least=("from",)), width)
    assert hidden_columns(said) == hidden
    assert ("shop/cart-654797457d-7577s" in said) == (width > 20)


def test_brackets_are_no_markup_and_long_code_is_folded_before_a_column_is_left_out():
    assert "[bold]x" in printed(table(("what",), [("[bold]x",)]), 80)
    row = ("queries.cpu", f"sum by(pod) {'rate(' * 20}", "default")
    said = printed(table(("key", "value", "from"), [row]), 80)
    assert "default" in said
    assert "too narrow" not in said

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


BEFORE, LARGE = b"what was there before", b"x" * 100_000


@contextmanager
def a_full_disk(room=1000):
    """No file gets longer than that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.json"


@pytest.fixture
def umask():
    before = os.umask(0o027)
    yield
    os.umask(before)


def test_a_full_disk_or_whoever_stops_the_writing_leaves_what_was_there(path):
    path.write_bytes(BEFORE)
    with a_full_disk(), pytest.raises(OSError, match="File too large") as error:
        write_whole(path, LARGE)
    assert error.value.filename == str(path)
    assert path.read_bytes() == BEFORE
    assert list(path.parent.iterdir()) == [path]
    path.unlink()
    with a_full_disk(), pytest.raises(OSError, match="File too large"):
        write_whole(path, LARGE)
    assert list(path.parent.iterdir()) == []
    path.write_bytes(BEFORE)

    def stopped():
        with whole_file(path) as file:
            file.write(LARGE)
            file.flush()
            assert path.read_bytes() == BEFORE
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert path.read_bytes() == BEFORE
    assert list(path.parent.iterdir()) == [path]


def test_a_new_file_has_the_mode_of_any_and_an_old_one_keeps_its_own(path, umask):
    write_whole(path, "new")
    assert mode(path) == 0o640
    path.chmod(0o604)
    write_whole(path, "newer")
    assert (mode(path), path.read_text()) == (0o604, "newer")
    private = path.with_name("token")
    write_whole(private, "secret", 0o600)
    assert mode(private) == 0o600


def test_links_lead_on_devices_are_written_to_and_missing_folders_named(path, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(path)
    write_whole(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    write_whole(Path(os.devnull), "all of it")
    with pytest.raises(OSError, match="No space left on device") as error:
        write_whole(Path("/dev/full"), "all of it")
    assert error.value.filename == "/dev/full"
    missing = tmp_path / "and" / "more.json"
    with pytest.raises(FileNotFoundError) as error:
        write_whole(missing, "")
    assert error.value.strerror == f"there is no folder {missing.parent}"
    assert error.value.filename == str(missing)


def test_a_line_that_does_not_fit_is_not_begun(path):
    append_whole(path, b"first\n")
    with (
        a_full_disk(room=8),
        pytest.raises(OSError, match=r"No space left|File too large") as error,
    ):
        append_whole(path, b"second\n")
    assert error.value.filename == str(path)
    assert path.read_bytes() == b"first\n"


def test_a_folder_is_made_or_found_to_take_no_files(tmp_path, path):
    made = tmp_path / "new" / "one"
    assert folder_for(made) == made
    assert list(made.iterdir()) == []
    path.write_text("a file")
    for taken in (path, path / "below"):
        with pytest.raises(NotADirectoryError) as error:
            folder_for(taken)
        assert error.value.filename == str(taken)
    with pytest.raises(OSError, match=r"/proc/self/fdinfo") as error:
        folder_for(Path("/proc/self/fdinfo"))
    assert error.value.filename == "/proc/self/fdinfo"


def test_nothing_else_writes_outputs():
    # Pipes, control groups, what processes of a benchmark are given, the logs of those that run,
    # and what stands in for an output that is closed.
    others = {"forked_process.py", "harm.py", "line.py", "processes.py", "forked.py", "running.py"}
    others |= {"emulated_process.py", "output_files.py", "quota.py", "whole_files.py"}
    writing = re.compile(r"""\.(?:write_text|write_bytes|save_svg)\(|open\((?:.*, )?"[wa]b?\"""")
    root = Path(__file__).parents[2]
    modules = [
        m
        for package in ("kubedsm", "loadgen", "lab/kubedsm_lab")
        for m in (root / package).rglob("*.py")
    ]
    assert {m.name for m in modules if writing.search(m.read_text(encoding="utf-8"))} <= others
