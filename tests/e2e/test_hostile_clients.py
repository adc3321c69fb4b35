"""A `kubedsm run` whose listeners, all that it has, are attacked at once."""

import contextlib
import json
import resource
import signal
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from support.processes import PATIENCE, Process, Server, write

pytestmark = pytest.mark.http

NODES = "nodes: [{name: e1, tier: edge, cpu: 8, memory: 8Gi}]"
ASKS = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
LARGE = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 8_000) for number in range(120))
CLIENTS = [b"", ASKS, ASKS + LARGE, b"GET / HTTP/9\r\n\r\n", b"GET /metrics HTTP/1.1\r\n\r\n" * 20]
#: of the process, systemd's default
FILES = 1024
MB = 2**20


@pytest.fixture(autouse=True)
def many_files():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def listening_ports(pid):
    """Every TCP port on which the process listens."""
    of_process = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            of_process.add(str(entry.readlink()))
    ports = set()
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in of_process:
            ports.add(int(fields[1].partition(":")[2], 16))
    return ports


def resident(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def hostile(port, number, address):
    client = socket.socket()
    client.bind((address, 0))
    client.settimeout(PATIENCE)
    with contextlib.suppress(OSError):
        client.connect(("127.0.0.1", port))
        client.sendall(CLIENTS[number % len(CLIENTS)])
    return client


def test_a_scheduler_whose_every_port_is_attacked_binds_pods_and_answers(tmp_path):
    token = write(tmp_path, "token", "secret")
    with (
        Server("--cluster", write(tmp_path, "cluster.yaml", NODES)) as server,
        Process(
            *("run", "--kubeconfig", server.kubeconfig, "--diagnostics-port", "0", "-o", "json"),
            *("--metrics-address", "127.0.0.1:0", "--page-address", "127.0.0.1:0"),
            *("--page-token-file", token),
        ) as scheduler,
        contextlib.ExitStack() as clients,
    ):
        pid = scheduler.process.pid
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (FILES, FILES))
        lines = [json.loads(scheduler.line())]
        while lines[-1]["event"] != "leading":
            lines.append(json.loads(scheduler.line()))
        ports = listening_ports(pid)
        assert len(ports) == 3
        before = resident(pid)
        for port in ports:
            for number in range(400):
                address = f"127.0.1.{number % 8 + 1}" if number >= 200 else "127.0.0.1"
                clients.enter_context(hostile(port, number, address))
        server.deploy("web", 20)
        server.until(lambda: server.bound() == 20)
        for port in ports:
            with pytest.raises(urllib.error.HTTPError) as answer:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/nothing", timeout=PATIENCE)
            assert answer.value.code in (401, 404)
            answer.value.close()
        assert len(list(Path(f"/proc/{pid}/fd").iterdir())) <= FILES - 200
        assert resident(pid) - before < 64 * MB
        code, out, err = scheduler.stop(signal.SIGTERM)
    assert (code, err) == (0, "")
    told = lines + [json.loads(line) for line in out.splitlines()]
    assert len([line for line in told if "listener" in line]) <= 5 * len(ports)
    assert not any("exception" in line for line in told)
