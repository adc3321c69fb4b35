"""Text that others write reaches no terminal, page or Event unescaped.

A linter rule (`banned-api`) has all commands print through `kubedsm.terminal`.
"""

import io
import json
import logging
import sys

import msgspec
import pytest
import structlog

from kubedsm.cli.console import log_to, print_json, remark
from kubedsm.cli.live_view import news_line
from kubedsm.cli.main import MODULES, commands
from kubedsm.dashboard.rows import (
    NewsRow,
    PodRow,
    Snapshot,
    StatusRow,
    decode_message,
    encode_message,
)
from kubedsm.dashboard.server.questions import explanation_response
from kubedsm.explain.explanation import Explanation
from kubedsm.kube.calls import writes
from kubedsm.terminal.echo import echo
from kubedsm.terminal.fitted_table import table
from support.answering_cluster import POD, AnsweringCluster
from support.command_line import kubedsm
from support.dumps import dump_of, node, pod
from support.printed import printed

#: clears the screen, sets the title, rings, overwrites; bidirectional, zero-width and C1 characters
HOSTILE = "a\x1b[2J\x1b]0;owned\x07\rb\u202ec\u2066d\u2069e\u200bf\x9b2Jg"


def is_clean(text):
    return all(each.isprintable() or each in "\n\t" for each in text)


def commands_on_dumps():
    """Each command that reads a dump, with what it needs beside."""
    for name in MODULES:
        command = commands.get_command(None, name)
        if any("--from" in parameter.opts for parameter in command.params):
            yield name
    yield "config"


COMMANDS = {
    "config": ("config", "show"),
    "explain": ("explain", "--all"),
    "pack": ("pack",),
    "place": ("place",),
    "suggest": ("suggest",),
}


assert set(commands_on_dumps()) == set(COMMANDS)


@pytest.mark.parametrize("output", ["text", "json"])
@pytest.mark.parametrize("command", COMMANDS)
def test_names_in_a_dump_are_printed_escaped(tmp_path, command, output):
    path = tmp_path / "dump.json"
    path.write_bytes(
        dump_of(
            node(f"edge-{HOSTILE}", "edge"),
            node(f"cloud-{HOSTILE}", "cloud"),
            pod(f"fits-{HOSTILE}"),
            pod(f"huge-{HOSTILE}", cpu="64"),
            pod(f"theirs-{HOSTILE}", scheduler=HOSTILE),
            {"kind": "Pod", "metadata": {"name": HOSTILE, "namespace": HOSTILE}, "spec": 1},
        )
    )
    done = kubedsm(*COMMANDS[command], "--from", path, "-o", output)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert is_clean(done.stdout)
    assert is_clean(done.stderr)
    assert r"\u202e" in done.stdout + done.stderr
    if output == "json":
        for line in done.stdout.splitlines():
            json.loads(line)


def test_an_error_line_is_escaped():
    done = kubedsm("place", "--from", f"/nowhere/{HOSTILE}")
    assert done.returncode == 1
    assert is_clean(done.stderr)
    assert r"\u202e" in done.stderr


def log_line():
    log_to()
    failed = ValueError(HOSTILE)
    structlog.get_logger().error(HOSTILE, error=HOSTILE, listed=[HOSTILE], exc_info=failed)


def log_json():
    log_to(json=True)
    structlog.get_logger().warning(HOSTILE, error=HOSTILE)


def log_library():
    log_to(json=True)
    about = {"name": "asyncio", "levelno": logging.ERROR, "msg": f"{HOSTILE}\n{HOSTILE}"}
    logging.lastResort.handle(logging.makeLogRecord(about))


NEWS = NewsRow(1.0, "event", HOSTILE, pod="shop/a")
PRINTERS = {
    "echo": lambda: echo(HOSTILE),
    "remark": lambda: remark(HOSTILE),
    "json": lambda: print_json({"said": HOSTILE}),
    "log": log_line,
    "JSON log": log_json,
    "JSON log of a library": log_library,
    "table": lambda: sys.stdout.write(
        printed(table(("a", "b"), [(HOSTILE, HOSTILE)], title=HOSTILE))
    ),
    "watch in a pipe": lambda: echo(news_line(NEWS)),
}


@pytest.mark.parametrize("printer", PRINTERS)
def test_what_is_printed_is_escaped(monkeypatch, printer):
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    monkeypatch.setattr("logging.lastResort", logging.lastResort)
    kept = structlog.get_config()
    try:
        PRINTERS[printer]()
    finally:
        structlog.configure(**kept)
    for stream in (out, err):
        stream.flush()
    said = "".join(stream.buffer.getvalue().decode() for stream in (out, err))
    assert is_clean(said)
    assert "202e" in said
    if printer.startswith("JSON"):
        json.loads(said)


def test_the_page_and_its_answers_get_no_unprintable_text():
    pods = {"shop/a": PodRow("shop/w", "waiting", 0.0, message=HOSTILE)}
    snapshot = Snapshot(1, 1.0, {"status": {"now": StatusRow(HOSTILE)}, "pods": pods})
    line = encode_message(snapshot).decode()
    assert is_clean(line)
    headline = decode_message(line.encode()).rows["status"]["now"].headline
    assert r"\u202e" in headline
    assert "\u202e" not in headline
    body = explanation_response(Explanation(HOSTILE, ((HOSTILE,),))).body
    assert is_clean(body.decode())
    title = msgspec.json.decode(body)["title"]
    assert r"\u202e" in title
    assert "\u202e" not in title


async def test_events_and_conditions_are_written_escaped():
    cluster = AnsweringCluster({"metadata": {"name": "e"}}, 201)
    await writes.create_event(
        cluster, writes.Regarding.of(POD), reason="r", action="a", note=HOSTILE,
        instance="i", at=1.0,
    )  # fmt: skip
    await writes.set_pod_condition(cluster, POD, "Unschedulable", HOSTILE, since=1.0)
    event, condition = (request.body for request in cluster.asked)
    for text in (event["note"], condition["status"]["conditions"][0]["message"]):
        assert is_clean(text)
        assert r"\u202e" in text
