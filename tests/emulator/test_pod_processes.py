"""Pods as processes, in virtual time: what is started, looked at, killed and started again."""

import asyncio
import signal

import pytest

from kubedsm_lab.emulator.actors.kubelet import UP, Containers
from kubedsm_lab.emulator.processes.pod_processes import FAILURES, PERIOD, PodProcesses
from kubedsm_lab.replay.virtual_time import VirtualClock


class Process:
    """Ends `patience` seconds after SIGTERM, and at once when killed."""

    def __init__(self, pid, arguments, environment):
        self.pid, self.arguments, self.environment = pid, arguments, environment
        self.url = f"http://127.0.0.1:{pid}"
        self.ready, self.patience, self.signals = True, 1.0, []
        self.end = asyncio.get_running_loop().create_future()

    async def is_ready(self):
        return self.ready

    async def ended(self):
        return await asyncio.shield(self.end)

    def send(self, number):
        if self.end.done():
            return
        self.signals.append(number)
        after = self.patience if number == signal.SIGTERM else 0.0
        asyncio.get_running_loop().call_later(after, self.exit, -number)

    def exit(self, code):
        if not self.end.done():
            self.end.set_result(code)


class Machine:
    """Starts them in `seconds`, unless `full` says why not, and `ready`."""

    def __init__(self):
        self.started, self.full, self.seconds, self.ready = [], None, 0.0, True

    async def start(self, name, arguments, environment):
        await asyncio.sleep(self.seconds)
        if self.full is not None:
            raise self.full
        self.started.append(Process(len(self.started) + 1, arguments, environment))
        self.started[-1].ready = self.ready
        return self.started[-1]


class Told:
    """What a pod's kubelet is told, whenever something changed."""

    def __init__(self, pods, uid):
        self.pods, self.uid, self.seen = pods, uid, []

    def __call__(self):
        self.seen.append(self.pods.of(self.uid))


def pod(uid, *args, command=("loadgen",), node="e1"):
    return {
        "metadata": {"namespace": "shop", "name": f"cart-{uid}", "uid": uid},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "c", "command": [*command], "args": ["serve", *args]}],
        },
    }


def begun(pods, uid, *args, **given):
    told = Told(pods, uid)
    pods.begin(pod(uid, *args, **given), told)
    return told


async def soon(seconds=0.01):
    await asyncio.sleep(seconds)


@pytest.fixture
async def machine():
    return Machine()


@pytest.fixture
async def pods(machine):
    async with PodProcesses(machine, VirtualClock(), most=2) as runtime:
        yield runtime


async def test_a_pod_is_a_process_with_the_arguments_of_its_container(pods, machine):
    pods.environment = lambda uid: {"http_proxy": f"http://{uid}@127.0.0.1"}
    begun(pods, "a", "--cpu", "5")
    await soon()
    (process,) = machine.started
    assert process.arguments == ("--cpu", "5")
    assert process.environment == {"http_proxy": "http://a@127.0.0.1"}
    ((running, itself),) = pods.running()
    assert (running.name, running.node, running.container) == (("shop", "cart-a"), "e1", "c")
    assert itself is process


@pytest.mark.parametrize("command", [(), ("nginx",), ("loadgen", "run")])
async def test_what_is_no_service_of_ours_is_only_said_to_run(pods, machine, command):
    begun(pods, "a", command=command)
    await soon()
    assert machine.started == []
    assert pods.of("a") == UP
    assert pods.end("a", 0.0)


async def test_a_pod_is_ready_when_its_process_says_so(pods, machine):
    machine.ready = False
    told = begun(pods, "a")
    await soon(2)
    assert pods.of("a") == Containers(ready=False)
    machine.started[0].ready = True
    await soon(0.2)
    assert told.seen == [UP]


async def test_one_that_hangs_is_not_ready_after_three_looks_in_vain(pods, machine):
    begun(pods, "a")
    await soon()
    machine.started[0].ready = False
    await soon((FAILURES - 1) * PERIOD)
    assert pods.of("a").ready
    await soon(PERIOD)
    assert not pods.of("a").ready


async def test_a_process_that_ends_is_told_and_started_again_after_longer_and_longer(pods, machine):
    told = begun(pods, "a")
    await soon()
    machine.started[0].exit(2)
    await soon()
    crashed = Containers(False, 0, "CrashLoopBackOff", "ended with exit code 2")
    assert told.seen == [UP, crashed]
    await soon(0.6)
    assert pods.of("a") == Containers(ready=True, restarts=1)
    machine.started[1].exit(-9)
    await soon(0.9)
    assert pods.of("a") == Containers(False, 1, "CrashLoopBackOff", "ended with SIGKILL")
    await soon(0.2)
    assert pods.of("a") == Containers(ready=True, restarts=2)


async def test_what_cannot_be_started_is_tried_again(pods, machine):
    machine.full = OSError(24, "Too many open files")
    begun(pods, "a")
    await soon()
    assert pods.of("a").message == "cannot be started: Too many open files"
    machine.full = None
    await soon(1)
    assert pods.of("a").ready


async def test_a_process_is_told_to_end_and_killed_when_its_grace_is_over(pods, machine):
    told = begun(pods, "a")
    await soon()
    machine.started[0].patience = 60.0
    assert not pods.end("a", 5.0)
    assert not pods.end("a", 5.0)
    await soon(4.9)
    assert not pods.end("a", 5.0)
    assert machine.started[0].signals == [signal.SIGTERM]
    await soon(0.2)
    assert machine.started[0].signals == [signal.SIGTERM, signal.SIGKILL]
    assert pods.end("a", 5.0)
    assert pods.get("a") is None
    assert len(told.seen) == 2
    await soon(60)
    assert len(machine.started) == 1


async def test_a_pod_that_ends_while_it_is_started_is_not(pods, machine):
    machine.seconds = 1.0
    begun(pods, "a")
    await soon()
    assert not pods.end("a", 30.0)
    await soon(2.0)
    assert pods.end("a", 30.0)
    assert machine.started == []


async def test_no_more_run_than_may_and_the_next_takes_the_place_of_one_that_ended(pods, machine):
    for uid in ("a", "b", "c"):
        begun(pods, uid)
    await soon()
    assert len(machine.started) == 2
    message = "2 pods run as processes already, and no more may"
    assert pods.of("c") == Containers(False, 0, "RunContainerError", message)
    pods.end("a", 30.0)
    await soon(1.2)
    assert pods.of("c") == UP
