"""Files that are whole or as they were: when the disk is full, and when their writer is stopped."""

import os
import re
import resource
import stat
from contextlib import contextmanager
from pathlib import Path

import pytest

from kubedsm.terminal.whole_files import append_whole, folder_for, whole_file, write_whole

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


def test_a_full_disk_leaves_what_was_there_and_names_the_file(path):
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


def test_whoever_stops_the_writing_leaves_what_was_there(path):
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
    # Pipes, what processes of a benchmark are given, the logs of those that run, and what stands
    # in for an output that is closed.
    others = {"child_process.py", "harm.py", "line.py", "processes.py", "forked.py", "running.py"}
    others.add("whole_files.py")
    writing = re.compile(r"""\.(?:write_text|write_bytes|save_svg)\(|open\((?:.*, )?"[wa]b?\"""")
    root = Path(__file__).parents[2]
    modules = [
        m
        for package in ("kubedsm", "loadgen", "lab/kubedsm_lab")
        for m in (root / package).rglob("*.py")
    ]
    assert {m.name for m in modules if writing.search(m.read_text(encoding="utf-8"))} <= others
