"""What is learned of how workloads change, from what happens to their pods."""

from itertools import pairwise

import attrs
import pytest

from kubedsm.model.events import Change
from kubedsm.model.measured import Measured
from kubedsm.model.model import Workload
from kubedsm.objective.lasting import ASSUMED
from kubedsm.scheduling.workload_changes import SETTLING, WorkloadChanges
from support.fixed_clock import FixedClock
from support.placement_instances import pod, resources

A, B = (Workload("shop", "Deployment", name) for name in "ab")


@attrs.define
class Watched:
    """Pods of workload a that come and go."""

    clock: FixedClock = attrs.field(factory=FixedClock)
    followed: set = attrs.field(factory=set)
    claimed: dict = attrs.field(factory=dict)
    changes: WorkloadChanges = None

    def __attrs_post_init__(self):
        self.changes = WorkloadChanges(self.clock, "kubedsm", self.followed, self.claimed)

    def pod(self, name, service="a", age=0.0):
        return pod(name, service, resources(1), created=self.clock.wall() - age)

    def came(self, name, service="a", age=0.0):
        made = self.pod(name, service, age)
        self.changes.observe(Change(pod_after=made))
        return made

    def becomes(self, before, **more):
        after = attrs.evolve(before, **more)
        self.changes.observe(Change(pod_before=before, pod_after=after))
        return after

    def gone(self, before):
        self.changes.observe(Change(pod_before=before))


@pytest.fixture
def watched():
    return Watched()


def test_what_is_there_already_has_been_quiet_since_its_youngest_pod_came(watched):
    for name, age in (("a-1", 900.0), ("a-2", 300.0), ("a-3", 600.0)):
        watched.came(name, age=age)
    assert watched.changes.quiet().lasting(A) == ASSUMED + 300.0
    assert not watched.changes.settling()


def test_pods_that_come_and_go_are_learned_from_and_a_workload_is_forgotten_with_its_last(watched):
    pods = [watched.came("a-0")]
    for number in range(1, 20):
        watched.clock.seconds += 30.0
        if number % 2:
            pods.append(watched.came(f"a-{number}"))
        else:
            pods.append(watched.becomes(pods.pop(), terminating=True))
            watched.gone(pods.pop())
    assert watched.changes.quiet().lasting(A) == pytest.approx(30.0, rel=0.2)
    for each in pods:
        watched.gone(each)
    assert not watched.changes.quiet().workloads


def test_a_move_is_no_change_of_its_workload(watched):
    old = watched.came("a-0")
    watched.clock.seconds = 90.0
    watched.came("a-1")
    watched.clock.seconds = 120.0
    known = watched.changes.quiet().workloads[A]
    for detached in (True, False):  # surge, recreate
        watched.followed.add(old.uid)
        watched.claimed["uid-a-2"] = "a move"
        old = watched.becomes(old, detached=detached)
        watched.came("a-2")
        watched.gone(watched.becomes(old, terminating=True))
        assert watched.changes.quiet().workloads[A] == known
        old = watched.came("a-0", age=120.0)


def test_a_pod_that_gets_another_owner_counts_for_that_one_only(watched):
    quiet = watched.came("a-1", age=900.0)
    watched.becomes(quiet, workload=B)
    assert watched.changes.quiet().workloads.keys().isdisjoint({A})
    watched.came("b-1", "b")
    assert B in watched.changes.quiet().workloads


def test_a_pod_of_another_scheduler_tells_nothing(watched):
    made = attrs.evolve(watched.pod("a-1"), scheduler_name="default-scheduler")
    watched.changes.observe(Change(pod_after=made))
    assert not watched.changes.quiet().workloads
    assert not watched.changes.settling()


def test_a_change_of_a_latency_between_sites_ends_the_quiet_period_and_a_new_one_does_not(watched):
    watched.came("a-1", age=900.0)
    pair, other = ("north", "south"), ("south", "north")

    def measures(before, after):
        samples = (Measured(1.0, latency=before), Measured(2.0, latency=after))
        watched.changes.observe_demand(
            Change(measured_before=samples[0], measured_after=samples[1])
        )
        return watched.changes.quiet().lasting(A)

    quiet = measures({}, {pair: 0.02})
    assert measures({pair: 0.02}, {pair: 0.02, other: 0.03}) == quiet == ASSUMED + 900.0
    assert measures({pair: 0.02}, {pair: 0.05}) < quiet


def test_demand_that_flaps_is_expected_to_last_as_long_as_it_did(watched):
    watched.came("a-1", age=900.0)
    samples = [Measured(n + 1.0, demand={A: {("north", "south")[n % 2]: 9.0}}) for n in range(20)]
    for before, after in pairwise(samples):
        watched.clock.seconds += 30.0
        watched.changes.observe_demand(Change(measured_before=before, measured_after=after))
    assert watched.changes.quiet().lasting(A) == pytest.approx(30.0, rel=0.3)


def test_pods_that_start_or_stop_are_told_until_they_have_but_not_for_long(watched):
    starting = watched.came("a-1")
    assert watched.changes.settling()
    assert not watched.changes.stopping()
    ready = watched.becomes(starting, ready=True)
    assert not watched.changes.settling()
    stopping = watched.becomes(ready, terminating=True)
    assert watched.changes.stopping() == {"uid-a-1"}
    assert watched.changes.settling()
    watched.gone(stopping)
    assert not watched.changes.settling()
    watched.came("a-2")
    watched.clock.seconds += SETTLING
    assert not watched.changes.settling()


def test_another_look_is_worth_it_the_later_the_longer_all_has_been_quiet(watched):
    watched.came("a-1")
    soon = watched.changes.worth_another_look()
    watched.clock.seconds += 600.0
    assert 10.0 < soon < watched.changes.worth_another_look() / 5
