"""History of the page on disk: what a later process reads, and what an unusable disk costs."""

import asyncio
import json
import os
import sqlite3
import threading
import zlib
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from kubedsm.dashboard import history as histories
from kubedsm.dashboard.history import FILE, History
from kubedsm.dashboard.recording import Line, Recording
from kubedsm.dashboard.rows import Changes, NewsRow, Snapshot, StatusRow, encode_message
from kubedsm.explain.decision_record import DecisionRecord
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.told_scene import ToldScene, headlines, stream_of


@asynccontextmanager
async def process(folder, scene=None, **bounds):
    """Process with a page, whose messages end up in the folder."""
    history = History(folder, VirtualClock(), **bounds)
    stream = stream_of(scene or ToldScene(), VirtualClock(), await history.read(), history.append)
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(each.run()) for each in (stream, history)]
        yield stream
        for task in running:
            task.cancel()


async def say(scene, *news):
    for each in news:
        scene.say(each)
        await asyncio.sleep(1.5)


@pytest.fixture
def logged():
    with capture_logs() as lines:
        yield lines


async def test_a_later_process_shows_what_the_earlier_ones_recorded(tmp_path, logged):
    folder = tmp_path / "made" / "by it"
    for run in range(3):
        async with process(folder, scene := ToldScene(begins=100.0 * run)) as stream:
            await say(scene, f"{run} a", f"{run} b", f"{run} c")
    told = ["begun", "0 a", "0 b", "0 c", "begun", "1 a", "1 b", "1 c", "begun", "2 a", "2 b"]
    assert headlines(stream) == [*told, "2 c"]
    async with process(folder, ToldScene(begins=900.0)) as later:
        assert headlines(later) == [*told, "2 c", "begun"]
        # A viewer of an earlier process starts again: versions are per process.
        assert later.known({"after": "2", "run": stream.run_id}) is None
        assert later.known({"after": "1", "run": later.run_id}) == 1
        assert later.recording.since(1) is None
        assert len(list(later.recording.lines(1))) == 0
    assert not logged


async def test_messages_reach_the_disk_while_the_process_runs(tmp_path):
    scene = ToldScene()
    async with process(tmp_path, scene):
        await say(scene, "seen")
        await asyncio.sleep(2 * histories.PAUSE)
        # A killed process closes nothing.
        (tmp_path / "copy").mkdir()
        for file in tmp_path.glob("history*"):
            (tmp_path / "copy" / file.name).write_bytes(file.read_bytes())
    async with process(tmp_path / "copy", ToldScene(begins=900.0)) as later:
        assert headlines(later) == ["begun", "seen", "begun"]


async def test_the_file_is_bounded_and_still_begins_with_all_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(histories, "CHAPTER", 4_000)
    scene = ToldScene({"news": {"1": NewsRow(1.0, "batch", "old", decision=7)}})
    noise = [os.urandom(500).hex() for _ in range(100)]
    async with process(tmp_path, scene, most=40_000):
        await say(scene, *noise)
    read = await History(tmp_path, VirtualClock()).read()
    assert 20_000 < sum(len(encode_message(each)) for each in read) <= 40_000
    assert (tmp_path / FILE).stat().st_size < 80_000
    assert isinstance(read[0], Snapshot)
    shown = Recording.of(read, Snapshot(1, 900.0, {}, "later"))
    assert [json.loads(line)["type"] for line in shown.lines()].count("snapshot") == 2
    assert headlines_of(read)[-1] == noise[-1]
    assert read[0].rows["news"]["1"].text == "old"


def headlines_of(messages):
    return [each.rows["status"]["now"].headline for each in messages]


def _break(path):
    path.write_bytes(b"no database at all" * 100)


def _cut(path):
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)


def _age(path):
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


def _garble(path):
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE batches SET lines = x'00'")
    connection.close()


@pytest.mark.parametrize("harm", [_break, _cut, _age, _garble])
async def test_a_damaged_or_unknown_file_is_moved_aside_with_one_line(tmp_path, logged, harm):
    async with process(tmp_path):
        await asyncio.sleep(1.0)
    harm(tmp_path / FILE)
    async with process(tmp_path, scene := ToldScene()) as stream:
        assert headlines(stream) == ["begun"]
        await say(scene, "goes on")
    [line] = logged
    assert line["event"] == "history moved aside"
    assert (tmp_path / "history.aside").exists()
    async with process(tmp_path, ToldScene(begins=900.0)) as later:
        assert headlines(later) == ["begun", "goes on", "begun"]


async def test_a_disk_that_takes_nothing_is_logged_once_and_the_page_goes_on(
    tmp_path, logged, monkeypatch
):
    monkeypatch.setattr(histories, "_TIMEOUT", 0.01)
    for folder in (tmp_path / "file", tmp_path / "locked"):
        logged.clear()
        if folder.name == "file":
            folder.write_text("no directory")
        else:
            folder.mkdir()
            other = sqlite3.connect(folder / FILE, check_same_thread=False)
            other.execute("BEGIN EXCLUSIVE")
        async with process(folder, scene := ToldScene()) as stream:
            await say(scene, *(f"news {number}" for number in range(8)))
            assert headlines(stream)[-1] == "news 7"
        [line] = logged
        assert line["event"] == "history not kept"
    other.close()


async def test_what_a_full_disk_lost_leaves_no_hole_in_what_follows(tmp_path, logged):
    scene, file = ToldScene(), None
    history = History(tmp_path, VirtualClock())
    file = history._file
    stream = stream_of(scene, VirtualClock(), (), history.append)
    file.write(history._take())
    for said, pages in (("kept", 0), ("lost", 1), ("kept again", 0)):
        # A database with no free page is what a full disk looks like.
        file._connect().execute(f"PRAGMA max_page_count = {pages or 2**30}")
        scene.say(said + os.urandom(20_000).hex())
        stream._publish(scene.look())
        file.write(history._take())
    file.close()
    read = await History(tmp_path, VirtualClock()).read()
    assert [said[:4] for said in headlines_of(read)] == ["begu", "kept", "lost", "kept"]
    assert [type(each) for each in read] == [Snapshot, Changes, Snapshot, Changes]
    [line] = logged
    assert "disk is full" in line["error"]


async def test_a_snapshot_from_before_the_end_replaces_the_history(tmp_path):
    """The clock was set back, or a standby has read the leader's recording."""
    async with process(tmp_path, scene := ToldScene(begins=500.0)) as stream:
        await say(scene, "late")
        stream._publish(Snapshot(1, 3.0, {"status": {"now": StatusRow("early")}}, "leader"))
        assert headlines(stream) == ["early"]
    read = await History(tmp_path, VirtualClock()).read()
    assert headlines_of(read) == ["early"]


async def test_a_disk_that_hangs_costs_bounded_memory(tmp_path, logged):
    history = History(tmp_path, VirtualClock(), most=10_000)
    for number in range(100):
        message = Changes(number, 1.0, {"status": {"now": StatusRow("x" * 1_000)}})
        history.append(message, encode_message(message))
    assert history._take() == []
    [line] = logged
    assert "hangs" in line["error"]


def test_a_file_is_closed_after_the_batch_that_is_being_written(tmp_path, logged, monkeypatch):
    """A shutdown cancels the task of a write, whose thread goes on."""
    file, compress = histories._File(tmp_path / FILE, 10_000), zlib.compress
    begun, closed = threading.Event(), threading.Event()
    monkeypatch.setattr(
        zlib, "compress", lambda *given: begun.set() or closed.wait(0.2) or compress(*given)
    )
    message = Snapshot(1, 1.0, {"status": {"now": StatusRow("kept")}})
    batch = [Line(message, encode_message(message))]
    writing = threading.Thread(target=file.write, args=(batch,))
    writing.start()
    begun.wait()
    file.close()
    closed.set()
    writing.join()
    assert headlines_of(file.read()) == ["kept"]
    assert not logged


def test_decisions_are_numbered_above_those_of_earlier_processes():
    record = DecisionRecord(VirtualClock())
    record.skip_numbers([])
    assert record._next == 1
    record.skip_numbers([4, 2])
    assert record._next == 5
