"""`loadgen serve` as a process."""

import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

pytestmark = pytest.mark.http
PATIENCE = 60


@contextmanager
def serving(*options):
    with subprocess.Popen(
        [sys.executable, "-c", "from loadgen.cli import main; main()", "serve", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_it_answers_counts_and_finishes_what_it_accepted():
    local = ("--host", "127.0.0.1", "--port", "0", "--drain", "0s")
    work = ("--service-time", "500ms", "--cpu", "1", "--cpu-limit", "500m", "--net", "10KB")
    with serving(*local, *work) as (process, url):
        assert get(f"{url}/readyz") == (200, b"ok\n")
        assert get(f"{url}/healthz") == (200, b"ok\n")
        assert get(f"{url}/any/path") == (200, b"x" * 10_000)
        lines = get(f"{url}/metrics")[1].decode().splitlines()
        assert "http_requests_total 1.0" in lines
        assert "http_request_duration_seconds_count 1.0" in lines
        answers = []
        request = threading.Thread(target=lambda: answers.append(get(url)))
        request.start()
        while "http_requests_in_flight 1.0" not in get(f"{url}/metrics")[1].decode().splitlines():
            pass
        process.send_signal(signal.SIGTERM)
        request.join()
        assert answers == [(200, b"x" * 10_000)]
        assert process.wait(PATIENCE) == 0
        with pytest.raises(urllib.error.URLError):
            get(url)


def test_it_is_not_ready_while_it_drains_and_answers_still():
    local = ("--host", "127.0.0.1", "--port", "0", "--name", "cart", "--drain", "1h")
    with serving(*local) as (process, url):
        with urllib.request.urlopen(url, timeout=PATIENCE) as response:
            assert response.headers["X-Served-By"] == socket.gethostname()
        process.send_signal(signal.SIGTERM)
        while get(f"{url}/readyz")[0] == 200:
            pass
        assert get(f"{url}/readyz") == (503, b"stopping\n")
        assert get(url) == (200, b"cart\n")
