"""`loadgen closed` and `loadgen hpa` as a user meets them, over real connections."""

import http.server
import json
import os
import signal
import threading
from contextlib import contextmanager

import pytest

from loadgen.cli import main

pytestmark = pytest.mark.http


def run(*arguments):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code


@contextmanager
def serving(interrupted_at=None):
    """Its URL, and the client's address of each request; a signal comes with one of them."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            asked.append(self.client_address)
            if len(asked) == interrupted_at:
                os.kill(os.getpid(), signal.SIGINT)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments):
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", asked
        finally:
            server.shutdown()
            thread.join()


def test_clients_that_wait_each_keep_a_connection(capsys, tmp_path):
    rows = tmp_path / "rows.csv"
    with serving() as (url, asked):
        command = ("closed", "3", "--url", url, "--duration", "300ms", "--max-rate", "60")
        assert run(*command, "--csv", str(rows), "-o", "json") == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert err == ""
    assert (found["clients"], found["url"], found["pacingMs"]) == (3, url, None)
    assert found["total"]["answered"] == len(asked) <= 18
    assert len(set(asked)) == 3
    assert len(rows.read_text().splitlines()) == 1 + len(asked)


def test_a_short_hold_as_text_and_one_that_is_interrupted_still_reports(capsys):
    with serving() as (url, _):
        command = ("hpa", "--url", url, "--clients", "1", "--hold-time", "200ms")
        assert run(*command, "--window", "100ms", "--max-rate", "50", "--p99", "20s") == 0
    out, _ = capsys.readouterr()
    assert "HOLD: 1 clients, 100% of the windows are good" in out
    assert "No window was bad: there was nothing to recover from." in out
    with serving(interrupted_at=12) as (url, _):
        command = ("hpa", "--url", url, "--clients", "1", "--window", "100ms", "--max-rate", "40")
        assert run(*command, "-o", "json") == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert err == ""
    assert found["interrupted"]
    assert found["hold"]["clients"] == 1
    assert 1 <= len(found["hold"]["windows"]) <= 3
    assert found["hold"]["recovery"] is None
