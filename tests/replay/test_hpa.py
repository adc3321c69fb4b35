"""`kubedsm replay --preset hpa`: the model beside a literal form of it, the figures, the tables."""

import json
import math
import random

import attrs
import msgspec
import pytest

from kubedsm_lab.baselines.in_turn import pick
from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.cli.replay_session import EXPERIMENTS
from kubedsm_lab.emulator.api.resources import PODS
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.replay.hpa.experiment import PRESET, Plan
from kubedsm_lab.replay.hpa.processor_sharing import ClosedLoop
from kubedsm_lab.replay.hpa.service import ModelledService
from kubedsm_lab.replay.hpa.tables import format_chance, median_interval
from kubedsm_lab.replay.hpa.trial import Outcome, play
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.command_line import kubedsm
from support.wire_pods import serving_pod

STEP = 0.01


class Literally:
    """The same clients, a hundredth of a second at a time, all shares found anew in each."""

    def __init__(self, demand, node):
        self.demand, self.node = demand, node
        self.nodes, self.clients, self.used = {}, [], {}
        self.latencies, self.lost = [], 0

    def have(self, nodes, now):
        self.nodes = nodes
        for client in self.clients:
            if client["pod"] not in nodes:
                self.lost += client["pod"] is not None
                if client["pod"] is not None:
                    client.update(since=now, left=self.demand)
                client["pod"] = pick(self.rng, list(nodes)) if nodes else None

    def begin(self, clients, rng, now):
        self.rng = rng
        self.clients = [
            {"pod": pick(rng, list(self.nodes)), "since": now, "left": self.demand}
            for _ in range(clients)
        ]

    def step(self, now):
        """Until `now`."""
        pods = [client["pod"] for client in self.clients]
        for client in self.clients:
            if client["pod"] is None:
                continue
            node = self.nodes[client["pod"]]
            busy = {pod for pod in pods if pod is not None and self.nodes[pod] == node}
            share = min(0.5, self.node / len(busy))
            speed = share / pods.count(client["pod"])
            client["left"] -= speed * STEP
            self.used[client["pod"]] = self.used.get(client["pod"], 0.0) + speed * STEP
            if client["left"] <= 1e-9:
                ended = now + client["left"] / speed
                self.latencies.append(ended - client["since"])
                client["since"], client["left"] = ended, self.demand + client["left"]


@pytest.mark.parametrize("seed", range(12))
def test_clients_see_what_a_literal_form_of_the_model_has_them_see(seed):
    """While pods come and go; few clients and many, nodes with room and without."""
    rng = random.Random(seed)
    node = rng.choice([0.6, 1.0, 2.0])
    loop, literal = ClosedLoop(0.2, math.inf, node), Literally(0.2, node)
    pods = {f"p{number}": f"n{number % 2}" for number in range(6)}
    present = {"p0": "n0"}
    for one in (loop, literal):
        one.have(present, 0.0)
        one.begin(seed % 6 + 1, random.Random(seed), 0.0)
    for step in range(1, 801):
        now = step * STEP
        literal.step(now)
        if rng.random() < 0.01:
            present = {pod: node for pod, node in pods.items() if rng.random() < 0.5}
            loop.have(present, now)
            literal.have(present, now)
    found = loop.window(8.0)
    requests = len(literal.latencies) + literal.lost
    # Whether one ends just now is a matter of rounding.
    assert abs(found.requests - requests) <= len(literal.clients)
    assert found.errors == literal.lost
    assert loop.used == pytest.approx({p: u for p, u in literal.used.items() if u}, abs=1e-6)
    for ours, theirs in zip(sorted(loop._latencies), sorted(literal.latencies), strict=False):
        assert ours == pytest.approx(theirs, abs=0.02)


def test_requests_that_nobody_answers_are_given_up():
    """The pod is gone after 1 s, and another comes at 20 s, to a request that waits since 16 s."""
    loop = ClosedLoop(0.2, 15.0)
    loop.have({"p": "n"}, 0.0)
    loop.begin(1, random.Random(1), 0.3)
    loop.have({}, 1.0)
    loop.have({"q": "n"}, 20.0)
    found = loop.window(20.5)
    # Answered at .7; lost at 1; given up at 16; answered at 20.4.
    assert (found.requests, found.errors) == (4, 2)
    assert loop._latencies == pytest.approx([0.4, 15.0, 4.4])


def test_where_a_median_is_follows_from_how_many_values_there_are():
    """By tables of the sign test: between the 6th and the 15th of 20, the 40th and 61st of 100."""
    assert median_interval([*range(20, 0, -1)]) == (6, 15)
    assert median_interval(range(1, 101)) == (40, 61)
    assert median_interval(range(6)) == (0, 5)
    assert median_interval(range(5)) is None
    assert median_interval([]) is None


def test_the_command_from_end_to_end(tmp_path, monkeypatch):
    """One seed with ours: 10 clients are too many for 3 pods, and enough for 20 of them."""
    monkeypatch.setitem(EXPERIMENTS, "hpa", attrs.evolve(PRESET, short=Plan(1, (KUBEDSM,), ())))
    arguments = ("replay", "--preset", "hpa", "--jobs", 1)
    done = kubedsm(*arguments, "--out", tmp_path, "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["emulated"], found["modelled"]) == (True, True)
    assert (tmp_path / "results.json").read_text() == done.stdout
    plain, instant = (msgspec.convert(each, Outcome) for each in found["trials"])
    assert (plain.mode, plain.clients, len(plain.p99)) == ("recovered", 10, 30)
    assert plain.rises < 60 < plain.wants_all <= plain.full
    assert plain.looks[-1].ready == 20
    assert plain.most_on_a_node == 4
    before = [look.pods for look in plain.looks if look.at <= 60]
    assert len(plain.starts) == 20 - before[-1] > 0
    assert all(start.scheduled > 0 for start in plain.starts)
    assert all(start.scheduled == 0 for start in instant.starts)
    tables = (tmp_path / "tables.md").read_text()
    assert tables.startswith("**Under KubeDSM the service was well again after ")
    assert "## How\n\nA model, not a measurement" in tables
    assert "<td>published, cache</td>" in (tmp_path / "index.html").read_text()
    assert play(plain.trial) == plain


def test_the_chance_of_the_published_range_has_an_interval():
    """Half the trials take 0 s, half 180 s: four runs differ unless all are alike, 2 in 16."""
    values = [0.0, 180.0] * 25
    shown = format_chance(values, 180.0)
    assert shown.startswith("0.88 (0.8")
    assert format_chance([0.0, 180.0], 180.0) == "0.88"


async def test_metrics_server_is_told_the_mean_since_it_asked_before():
    clock = VirtualClock()
    service = ModelledService(clock)
    pod = serving_pod("a", "php-apache", "worker-1")
    assert service.usage("default", "a", "cpu") is None
    service.notice(ObjectChange(0, "ADDED", PODS, pod, None))
    assert service.usage("default", "a", "cpu") is None
    await clock.sleep(10)
    # Half a core for 5 of 15 seconds.
    window = await service.window(1, 5.0, random.Random(1))
    assert window.requests == 12
    assert service.usage("default", "a", "memory") is None
    assert service.usage("default", "a", "cpu") == pytest.approx(0.5 / 3)
    assert service.usage("default", "b", "cpu") is None
