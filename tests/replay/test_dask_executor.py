"""`--executor dask=...`: experiments on the workers of a Dask cluster."""

import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

from support import command_line
from support.processes import PATIENCE, Process, free_port, kubedsm, wait_until

pytestmark = pytest.mark.http

REPLAY = ("replay", "1.5-.4", "--policies", "kubedsm,random", "--seeds", "1", "-o", "json")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Address of a scheduler, and its two worker processes."""
    address = f"tcp://127.0.0.1:{free_port()}"
    folder = tmp_path_factory.mktemp("dask")
    options = ("--no-dashboard", "--local-directory", folder)
    worker = ("worker", address, *options, "--nthreads", "1", "--no-nanny")
    with (
        dask(folder, "scheduler", "--host", address, "--no-dashboard", "--no-show"),
        dask(folder, *worker) as first,
        dask(folder, *worker) as second,
    ):
        with connect(address) as client:
            client.wait_for_workers(2, timeout=PATIENCE)
        yield address, first, second


def connect(address):
    # Takes half a second, in each worker that collects this module.
    from distributed import Client  # noqa: PLC0415

    return Client(address, timeout=PATIENCE)


@contextmanager
def dask(folder, *arguments):
    command = [sys.executable, "-m", "distributed.cli.dask_" + arguments[0], *arguments[1:]]
    with (folder / "log").open("a") as log:
        process = subprocess.Popen([*map(str, command)], stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE)


@pytest.mark.long
def test_results_are_those_of_processes_also_if_a_worker_is_lost(cluster):
    address, first, _ = cluster
    expected = kubedsm(*REPLAY, "--jobs", "1", timeout=600)
    assert expected.returncode == 0, expected.stderr
    done = kubedsm(*REPLAY, "--executor", f"dask={address}", timeout=600)
    assert (done.returncode, done.stdout) == (0, expected.stdout), done.stderr
    with (
        Process(*REPLAY, "--executor", f"dask={address}") as running,
        connect(address) as client,
    ):
        wait_until(lambda: sum(map(len, client.processing().values())) >= 2)
        first.send_signal(signal.SIGKILL)
        out, _ = running.process.communicate(timeout=600)
        assert out == expected.stdout


@pytest.mark.long
def test_an_interrupt_ends_the_command_and_cancels_its_runs(cluster):
    address, _, _ = cluster
    many = ("replay", "1.5-.4", "--policies", "kubedsm", "--seeds", "40")
    with (
        Process(*many, "--executor", f"dask={address}") as running,
        connect(address) as client,
    ):
        wait_until(lambda: any(client.processing().values()))
        code, _, err = running.stop(signal.SIGINT)
        assert code not in (0, None)
        assert "Traceback" not in err
        wait_until(lambda: not any(client.processing().values()))


def test_a_scheduler_that_does_not_answer_is_one_line():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        done = command_line.kubedsm("replay", "1.5-.4", "--executor", f"dask={address}")
    assert done.returncode == 1
    assert f"no Dask scheduler answers at {address}" in done.stderr
    assert len(done.stderr.splitlines()) == 1
