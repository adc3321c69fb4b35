"""`kubedsm replay --preset packing`: instances, what they are called, and the tables."""

import json

import attrs
import msgspec
import pytest

from kubedsm.model.model import Resources, Tier
from kubedsm.solvers.available import Highs
from kubedsm_lab.cli.replay_session import EXPERIMENTS
from kubedsm_lab.replay.packing import experiment
from kubedsm_lab.replay.packing.attempts import (
    Attempt,
    Call,
    Category,
    attempt,
    category,
    place_by_paper,
)
from kubedsm_lab.replay.packing.attempts import call as packed_within
from kubedsm_lab.replay.packing.experiment import PRESET, Plan, attempts
from kubedsm_lab.replay.packing.instances import Shape, instance, seeds
from kubedsm_lab.replay.packing.tables import sections
from kubedsm_lab.replay.tables import as_markdown
from support.command_line import kubedsm
from support.evaluations import lines_in
from support.placement_instances import snapshot
from support.policy_clusters import MI, node, pod

TINY = Shape(4, 4, 4, 95)
#: seconds, far more than is needed: what is found does not depend on them
PLENTY = 600.0
GI = 2**30


@pytest.mark.parametrize("shape", [Shape(4, 4, 1, 90), Shape(8, 4, 2, 100), Shape(8, 1, 4, 105)])
@pytest.mark.parametrize("seed", range(1, 6))
def test_instances_are_as_they_are_described(shape, seed):
    one = instance(shape, seed)
    assert one.arrivals == instance(shape, seed).arrivals
    sizes = [len(pods) for pods in one.arrivals]
    assert sum(sizes) == shape.nodes * shape.pods_per_node
    assert set(sizes) <= {1, 2, 3, 4}
    for pods in one.arrivals:
        assert len({(pod.pod_class, pod.workload) for pod in pods}) == 1
        assert 100 <= pods[0].requests.cpu <= 1000
        assert 100e6 <= pods[0].requests.memory <= 1000e6
        assert 1 <= pods[0].pod_class.priority <= shape.priorities
    nodes = list(one.empty.nodes.values())
    assert len(nodes) == shape.nodes
    assert len({node.allocatable for node in nodes}) == 1
    for resource in ("cpu", "memory"):
        asked = [getattr(pod.requests, resource) for pods in one.arrivals for pod in pods]
        room = getattr(nodes[0].allocatable, resource)
        exact = sum(asked) * 100 / shape.usage / shape.nodes
        assert room == max(asked) or exact <= room < exact + 2
        assert room >= max(asked)


@pytest.mark.parametrize(
    ("theirs", "ours", "proven", "expected"),
    [
        ((2, 3), (2, 4), True, Category.BETTER_AND_OPTIMAL),
        ((2, 3), (2, 4), False, Category.BETTER),
        # one more of the first priority counts more than any number of the second
        ((2, 9), (3, 0), False, Category.BETTER),
        ((2, 3), (2, 3), True, Category.KWOK_OPTIMAL),
        ((2, 3), (2, 3), False, Category.FAILURE),
        ((2, 3), (1, 9), False, Category.FAILURE),
        ((2, 3), (1, 9), True, Category.FAILURE),
    ],
)
def test_what_an_outcome_is_called(theirs, ours, proven, expected):
    assert category(theirs, ours, proven=proven) is expected
    assert category(theirs, ours, proven=proven, holds=False) is Category.FAILURE


def test_tiny_instances_are_packed_to_the_end():
    """By a solver that finds the same on every machine; what is proven is not tried again."""
    each = attempt(Shape(2, 4, 2, 95), 5, [PLENTY, 2 * PLENTY], Highs())
    steady, first, again = each.calls
    assert (steady.gaps, first.gaps, again.gaps) == (False, True, True)
    assert first.category is Category.BETTER_AND_OPTIMAL
    assert first.placed > each.placed
    assert first.placed >= steady.placed
    assert all(ours <= most for ours, most in zip(first.placed, each.pods, strict=True))
    assert first.proven
    assert msgspec.structs.replace(again, seconds=PLENTY) == first


def test_the_papers_order_moves_no_pod_for_a_less_important_one():
    """Only the node of the more important pod is large enough for the other."""
    big = packable("big", 2, 6, "n1", running=True)
    start = snapshot([node("n1", Tier.EDGE, 8, GI), node("n2", Tier.EDGE, 6, GI)], [
        big, packable("small", 1, 8)
    ])  # fmt: skip
    assert place_by_paper(start, (2, 1), Highs()) == (1, 0)
    ours = packed_within(start, start, (2, 1), Highs(), PLENTY, gaps=True)
    assert ours.placed == (1, 1)
    # one more pod of 8 of 14 cores, and of 1 of 2048 Mi
    assert (ours.cpu, ours.memory) == pytest.approx((100 * 8 / 14, 100 / 2048))


def packable(name, priority, cores, on=None, *, running=False):
    made = pod(name, cores=cores, memory=MI, service=name, on=on, ready=running)
    phase = "Running" if running else "Pending"
    pod_class = attrs.evolve(made.pod_class, priority=priority)
    return attrs.evolve(made, phase=phase, pod_class=pod_class)


def test_what_was_done_is_not_done_again(tmp_path):
    kept = tmp_path / "calls.jsonl"
    steady, short, long = (
        call(Category.BETTER, 1.0, gaps=False),
        call(Category.BETTER, 1.0),
        call(Category.BETTER_AND_OPTIMAL, 10.0),
    )
    done = [of(TINY, steady, short, long, seed=1), of(TINY, seed=2)]
    kept.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in done))
    cases = [(TINY, 1), (TINY, 2)]
    assert list(attempts(cases, [1.0, 10.0], "off", 1, kept)) == done
    assert list(attempts(cases, [1.0], "off", 1, kept)) == [of(TINY, steady, short), done[1]]
    assert len(kept.read_bytes().splitlines()) == 2
    # one more, and one with another limit
    more = [*cases, (TINY, 3)]
    made = list(attempts(more, [PLENTY], "off", 1, kept))
    assert [(each.seed, len(each.calls)) for each in made] == [(2, 0), (1, 2), (3, 2)]
    assert {each.seed: each for each in attempts(more, [PLENTY], "off", 1, kept)} == {
        each.seed: each for each in made
    }
    assert len(kept.read_bytes().splitlines()) == 4


def call(category, seconds=1.0, *, gaps=True, **more):
    given = {"took": 0.5, "load": 3.0, "proven": True, "placed": (1,), "cpu": 2.0, "memory": 3.0}
    given |= {"moves": 4, "evictions": 1} | more
    return Call(seconds=seconds, gaps=gaps, category=category, **given)


def of(shape, *calls, seed=1, paper=None):
    return Attempt(shape, seed, (9,), (5,), 2, (5,), paper, calls)


def lines_of(title, *made):
    return lines_in(as_markdown(sections(made), "by hand"), title)


def test_tables_have_ours_beside_what_was_published():
    made = [
        of(TINY, call(Category.BETTER)),
        of(TINY, call(Category.KWOK_OPTIMAL, took=1.5)),
        of(TINY, call(Category.FAILURE, proven=False)),
        of(TINY),
        # other priorities than the published figures are of
        of(Shape(4, 4, 1, 95), call(Category.FAILURE)),
    ]
    assert lines_of("At a glance", *made)[1:] == [
        "| 1 s | 3 | 66.7 (63.3) (goal: 95) | 33.3 (44.2) | 33.3 (19.1) | 33.3 | 3.0 |",
    ]
    assert lines_of("By nodes", *made) == [
        "| within | Failures | No Calls | KWOK Optimal | Better | Better&Optimal |",
        "| 1 s, 4 nodes | 25 (2) | 25 (15) | 25 (42) | 25 (2) | 0 (38) |",
    ]
    assert lines_of("By priorities", *made)[1:] == [
        "| 1 s, 1 | 100 | 0 | 0 | 0 | 0 |",
        "| 1 s, 4 | 25 | 25 | 25 | 25 | 0 |",
    ]
    assert lines_of("Cost", *made)[1:] == ["| 1 s, 4 x 4 | 0.75 | 1.50 | 4.0 | 1.00 | 2.00 | 75 |"]
    titles = [
        line
        for line in as_markdown(sections(made), "by hand").splitlines()
        if line.startswith("## ")
    ]
    assert "## Figure 4: better, and proven optimal" not in titles


@pytest.fixture
def tiny(monkeypatch):
    """A short form of two instances, of which no result depends on the machine."""
    monkeypatch.setattr(experiment, "SHAPES", (Shape(4, 4, 1, 95), Shape(4, 4, 1, 105)))
    monkeypatch.setattr(experiment, "solver_of", lambda *_: Highs(nodes=50))
    short = attrs.evolve(PRESET, short=Plan(1, (4,), (PLENTY,)))
    monkeypatch.setitem(EXPERIMENTS, "packing", short)


def packed(*arguments):
    return kubedsm("replay", "--preset", "packing", "--seeds", 1, "--jobs", 1, *arguments)


def test_the_command_from_end_to_end(tmp_path, tiny):
    done = packed("--out", tmp_path, "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["emulated"] is False
    assert [each["shape"]["usage"] for each in found["instances"]] == [95, 105]
    assert found["instances"][0]["calls"][1]["category"] == "Better&Optimal"
    assert found["instances"][0]["shape"]["podsPerNode"] == 4
    assert (tmp_path / "results.json").read_text() == done.stdout
    tables = (tmp_path / "tables.md").read_text()
    assert tables.startswith("**Packing placed more pods than kube-scheduler within ")
    assert "## How\n\nComputed on snapshots: nothing is emulated" in tables
    page = (tmp_path / "index.html").read_text()
    assert "nothing is emulated" in page
    assert "<h2>By nodes</h2>" in page
    again = packed("--out", tmp_path)
    assert again.stdout.endswith((tmp_path / "tables.md").read_text())
    assert len((tmp_path / "calls-highs.jsonl").read_bytes().splitlines()) == 2


def test_the_first_seeds_never_change():
    assert seeds(Shape(4, 4, 1, 90), 6) == [1, 2, 3, 5, 6, 7]
    assert seeds(Shape(4, 8, 1, 95), 6) == [1, 2, 3, 4, 5, 6]
    assert seeds(Shape(32, 8, 1, 100), 3) == [1, 2, 3]
    first = instance(TINY, 1).arrivals[0]
    assert len(first) == 1
    assert first[0].requests == Resources(167, 359810528, 1)
    assert first[0].pod_class.priority == 4
