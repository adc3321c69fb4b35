"""What the mirror makes of events, of room that is reserved, and of room that is nominated."""

import pytest

from kubedsm.model.events import (
    Change,
    Freed,
    HistoryRewound,
    KindKnown,
    NodeApplied,
    NodeDeleted,
    PodApplied,
    PodDeleted,
    SurroundingApplied,
    SurroundingDeleted,
)
from kubedsm.model.mirror import ClusterMirror, ReplacementClaim, ReservationError
from kubedsm.model.model import (
    Node,
    NodeName,
    Pod,
    PodClass,
    Resources,
    SchedulingRules,
    Share,
    Tier,
    Tiers,
    Uid,
    Workload,
)
from kubedsm.model.surroundings import Claim, Namespace, StorageClass, Surroundings, Volume
from kubedsm.optimizer.moving.movable import default_movable

ONE_CORE = PodClass(Resources(cpu=1000, memory=2**30, pods=1), SchedulingRules())
DATA = "shop", "data"
MARK = {"kubedsm.io/migrating": "x"}
WEB = Workload("shop", "Deployment", "web")


def node(name="n2", cpu=4000, tier="edge"):
    return Node(NodeName(name), {"kubedsm.io/tier": tier}, Resources(cpu, 8 * 2**30, 10))


def pod(uid="u1", name=None, **fields):
    defaults = {"scheduler_name": "kubedsm", "workload": WEB, "pod_class": ONE_CORE}
    return Pod(Uid(uid), "shop", name or uid, **(defaults | fields))


def mirror(*events):
    made = ClusterMirror()
    for event in events:
        made.apply(event)
        made.check_invariants()
    return made


def test_the_tier_comes_from_the_configured_label():
    made = mirror(NodeApplied(node("n2")), NodeApplied(node("n5", tier="cloud")))
    made.apply(NodeApplied(node("n9", tier="fog")))
    assert [made.node(NodeName(n)).tier for n in ("n2", "n5")] == [Tier.EDGE, Tier.CLOUD]
    assert made.node(NodeName("n9")).tier is made.node(NodeName("gone")) is None
    assert [n.name for n in made.snapshot().of_tier(Tier.EDGE)] == ["n2"]


def test_a_mark_counts_while_a_plan_knows_the_pod_and_only_on_pods_of_ours():
    ours = pod("a", detached=True, labels=MARK)
    theirs = pod("b", detached=True, labels=MARK, scheduler_name="another")
    made = mirror(PodApplied(ours), PodApplied(theirs))
    assert [made.snapshot().pods[p.uid].detached for p in (ours, theirs)] == [True, False]
    made._followed = followed = set()
    assert made.snapshot().census.shares == {WEB: Share(0, 1)}
    assert made.pod(ours.uid).detached
    followed.add(ours.uid)
    assert made.snapshot().census.shares == {}


def test_pods_of_a_namespace_that_is_being_deleted_are_neither_placed_nor_moved():
    runs = pod("a", node_name="n2", phase="Running", ready=True)
    made = mirror(NodeApplied(node()), PodApplied(runs), PodApplied(pod("b")))
    before = made.snapshot()
    assert [p.uid for p in before.schedulable(before.pods.values())] == ["b"]
    assert not default_movable(before)(runs)
    made.apply(SurroundingApplied(Namespace("shop", terminating=True)))
    after = made.snapshot()
    assert not after.schedulable(after.pods.values())
    assert str(default_movable(after)(runs)) == "its namespace is being deleted"


def test_a_pod_with_our_label_and_no_move_is_left_where_it_is():
    runs = pod("a", node_name="n2", phase="Running", ready=True, labels=MARK)
    reason = default_movable(mirror(NodeApplied(node()), PodApplied(runs)).snapshot())(runs)
    assert str(reason) == "it carries the label kubedsm.io/migrating"


def test_room_is_held_by_bound_terminating_and_foreign_pods_and_not_by_finished_ones():
    made = mirror(
        NodeApplied(node()),
        PodApplied(pod("a", node_name="n2")),
        PodApplied(pod("b", node_name="n2", terminating=True)),
        PodApplied(pod("c", node_name="n2", scheduler_name="default-scheduler")),
        PodApplied(pod("d", node_name="n2", phase="Succeeded")),
        PodApplied(pod("e")),
    )
    assert made.snapshot().free["n2"].cpu == 1000
    made.apply(PodDeleted(Uid("b"), "shop", "b"))
    made.check_invariants()
    assert made.snapshot().free["n2"].cpu == 2000


def test_a_pod_that_comes_before_its_node_is_counted_when_the_node_comes():
    made = mirror(PodApplied(pod("a", node_name="n2")), NodeApplied(node()))
    assert made.snapshot().free["n2"].cpu == 3000
    made.apply(NodeDeleted(NodeName("n2")))
    made.apply(NodeApplied(node(cpu=2000)))
    assert made.snapshot().free["n2"].cpu == 1000


@pytest.mark.parametrize(
    ("event", "cpu"),
    [
        (PodApplied(pod("a", node_name="n2", resource_version="2")), 3000),
        (PodDeleted(Uid("a"), "shop", "a"), 4000),
    ],
    ids=["on its node", "deleted"],
)
def test_a_reservation_holds_room_until_the_pod_is_seen_on_its_node_or_is_gone(event, cpu):
    made = mirror(NodeApplied(node()), PodApplied(pod("a")))
    made.reserve("a", NodeName("n2"), ONE_CORE.requests)
    snapshot = made.snapshot()
    assert snapshot.free["n2"].cpu == 3000
    assert dict(snapshot.placed) == {"a": "n2"}
    assert snapshot.schedulable(snapshot.pods.values()) == []
    made.apply(event)
    made.check_invariants()
    assert made.held == []
    assert made.snapshot().free["n2"].cpu == cpu
    made.release("a")


@pytest.mark.parametrize(
    ("cpu", "node_name", "says"),
    [(1000, "n9", "gone"), (500, "n2", "too little cpu")],
)
def test_room_that_is_not_there_cannot_be_reserved(cpu, node_name, says):
    made = mirror(NodeApplied(node(cpu=cpu)), PodApplied(pod("a")))
    with pytest.raises(ReservationError, match=says):
        made.reserve("a", NodeName(node_name), ONE_CORE.requests)
    assert not made.snapshot().placed


def test_nobody_reserves_twice():
    made = mirror(NodeApplied(node()), PodApplied(pod("a")))
    made.reserve("a", NodeName("n2"), ONE_CORE.requests)
    with pytest.raises(ReservationError, match="holds a reservation on n2"):
        made.reserve("a", NodeName("n2"), ONE_CORE.requests)


def test_an_overcommitted_node_still_takes_what_asks_for_nothing():
    made = mirror(NodeApplied(node(cpu=500)), PodApplied(pod("a", node_name="n2")))
    made.reserve("x", NodeName("n2"), Resources(pods=1))
    with pytest.raises(ReservationError):
        made.reserve("y", NodeName("n2"), Resources(cpu=1, pods=1))


def test_a_pod_that_is_deleted_before_it_is_bound_gives_its_reservation_back():
    made = mirror(NodeApplied(node()), PodApplied(pod("a")))
    made.reserve("a", NodeName("n2"), ONE_CORE.requests)
    made.apply(PodApplied(pod("a", terminating=True)))
    assert not made.has_reservation("a")
    assert made.snapshot().free["n2"].cpu == 4000


def test_delete_and_create_under_one_name_can_come_as_one_change():
    made = mirror(NodeApplied(node()), PodApplied(pod("old", name="st-0", node_name="n2")))
    made.apply(PodApplied(pod("new", name="st-0")))
    made.check_invariants()
    assert made.pod(Uid("old")) is None
    assert made.snapshot().free["n2"].cpu == 4000


def test_a_state_that_was_overtaken_is_ignored():
    made = mirror(NodeApplied(node()), PodApplied(pod("a", node_name="n2", resource_version="10")))
    change = made.apply(PodApplied(pod("a", resource_version="9")))
    assert change.pod_before == change.pod_after
    assert made.pod(Uid("a")).node_name == "n2"


@pytest.mark.parametrize("version", ["abc", "9" * 5000, "٣", "-1", ""])
def test_a_version_that_is_no_number_overtakes_nothing_and_is_not_overtaken(version):
    made = mirror(NodeApplied(node()), PodApplied(pod("a", resource_version="10")))
    made.apply(PodApplied(pod("a", node_name="n2", resource_version=version)))
    assert made.pod(Uid("a")).node_name == "n2"
    made.apply(PodApplied(pod("a", resource_version="11")))
    assert made.pod(Uid("a")).node_name is None


def test_of_two_pods_of_one_uid_the_last_shown_counts():
    made = mirror(NodeApplied(node()), PodApplied(pod("a", name="one", node_name="n2")))
    made.apply(PodApplied(pod("a", name="two", node_name="n2")))
    made.check_invariants()
    assert made.pod(Uid("a")).name == "two"
    made.apply(PodDeleted(Uid("a"), "shop", "two"))
    made.check_invariants()
    assert made.snapshot().free["n2"].cpu == 4000


def test_a_state_of_a_rewound_history_is_taken_though_its_version_is_older():
    made = mirror(NodeApplied(node()), PodApplied(pod("a", node_name="n2", resource_version="10")))
    made.apply(HistoryRewound())
    change = made.apply(PodApplied(pod("a", resource_version="9")))
    assert change.freed.node == "n2"
    assert made.pod(Uid("a")).node_name is None
    made.check_invariants()
    assert made.apply(PodApplied(pod("a", node_name="n2", resource_version="8"))).freed is None
    assert made.pod(Uid("a")).node_name is None


def test_a_claim_of_a_rewound_history_is_taken_though_its_version_is_older():
    made = mirror(SurroundingApplied(Claim("shop", "data", bound=True, resource_version="10")))
    older = SurroundingApplied(Claim("shop", "data", resource_version="9"))
    for event in (older, HistoryRewound(), older):
        made.apply(event)
        assert made.surroundings.of(Claim)[DATA].bound
    made.apply(HistoryRewound(Claim))
    made.apply(older)
    assert not made.surroundings.of(Claim)[DATA].bound


def test_a_claim_takes_the_next_new_pod_of_its_workload_only():
    made = mirror(NodeApplied(node()), PodApplied(pod("a")))
    made.claim("move-1", ReplacementClaim.of(pod("old")))
    made.claim("move-2", ReplacementClaim.of(pod("old")))
    made.apply(PodApplied(pod("a", resource_version="2")))
    made.apply(PodApplied(pod("x", workload=Workload("shop", "Deployment", "cart"))))
    made.apply(PodApplied(pod("b")))
    made.apply(PodApplied(pod("c")))
    made.check_invariants()
    assert [made.claimed.get(Uid(u)) for u in "axbc"] == [None, None, "move-1", "move-2"]
    made.end_claim("move-1")
    assert [made.claimed.get(Uid(u)) for u in "axbc"] == [None, None, None, "move-2"]


def hashed(uid, template):
    return pod(uid, labels={"pod-template-hash": template})


DATABASE = Workload("shop", "StatefulSet", "db")
LARGER = PodClass(Resources(cpu=2000, pods=1), SchedulingRules())


@pytest.mark.parametrize(
    ("old", "others", "new"),
    [
        (
            hashed("old", "h1"),
            [hashed("of-a-rollout", "h2"), pod("of-nobody")],
            hashed("new", "h1"),
        ),
        (pod("old"), [pod("resized", pod_class=LARGER)], pod("new")),
        (
            pod("old", "db-1", workload=DATABASE),
            [pod("scaled-up", "db-2", workload=DATABASE)],
            pod("new", "db-1", workload=DATABASE),
        ),
    ],
    ids=["template", "room", "name"],
)
def test_a_claim_takes_no_pod_of_another_kind(old, others, new):
    made = mirror(NodeApplied(node()))
    made.claim("move", ReplacementClaim.of(old))
    for other in others:
        made.apply(PodApplied(other))
    assert made.find_replacement("move") is None
    made.apply(PodApplied(new))
    assert made.claimed.get(new.uid) == "move"


def test_shares_count_neither_terminating_nor_detached_nor_foreign_pods():
    made = mirror(
        NodeApplied(node()),
        NodeApplied(node("n5", tier="cloud")),
        PodApplied(pod("a", node_name="n2")),
        PodApplied(pod("b", node_name="n5")),
        PodApplied(pod("c", node_name="n5", terminating=True)),
        PodApplied(pod("d", node_name="n2", detached=True)),
        PodApplied(pod("e", node_name="n2", scheduler_name="default-scheduler")),
        PodApplied(pod("f")),
    )
    share = made.snapshot().census.shares[WEB]
    assert (share.edge, share.total) == (1, 3)


def released(made):
    told = []
    made._on_released = lambda change, _: told.append(change)
    return told


def test_room_that_is_given_back_is_told_of():
    made = mirror(NodeApplied(node()), PodApplied(pod("a")))
    told = released(made)
    made.reserve("a", NodeName("n2"), ONE_CORE.requests)
    made.reserve("move-1", NodeName("n2"), ONE_CORE.requests)
    made.release("a")
    made.release("move-1")
    room = Freed(NodeName("n2"), ONE_CORE.requests)
    there = pod("a", node_name="n2")
    assert told == [
        Change(pod_before=there, pod_after=pod("a"), freed=room),
        Change(freed=room),
    ]


def test_room_that_goes_over_to_the_pod_was_not_given_back():
    made = mirror(NodeApplied(node()), NodeApplied(node("n5")), PodApplied(pod("a")))
    told = released(made)
    made.reserve("move-1", NodeName("n2"), ONE_CORE.requests)
    made.hand_over("move-1", "a")
    made.apply(PodApplied(pod("a", node_name="n2")))
    assert told == []
    made.apply(PodApplied(pod("b")))
    made.reserve("b", NodeName("n2"), ONE_CORE.requests)
    made.apply(PodApplied(pod("b", node_name="n5")))
    [change] = told
    assert change.freed == Freed(NodeName("n2"), ONE_CORE.requests)
    assert change.pod_before.node_name == "n2"


SMALLER = PodClass(Resources(cpu=400, memory=2**30, pods=1), SchedulingRules())


@pytest.mark.parametrize(
    ("event", "amount"),
    [
        (PodDeleted(Uid("a"), "shop", "a"), ONE_CORE.requests),
        (PodApplied(pod("a", node_name="n2", phase="Succeeded")), ONE_CORE.requests),
        (PodApplied(pod("a", node_name="n2", pod_class=SMALLER)), Resources(cpu=600)),
        (PodApplied(pod("a", node_name="n2", ready=True)), None),
    ],
    ids=["deleted", "finished", "resized", "ready"],
)
def test_a_change_says_what_room_came_free(event, amount):
    made = mirror(NodeApplied(node()), PodApplied(pod("a", node_name="n2")))
    freed = Freed(NodeName("n2"), amount) if amount is not None else None
    assert made.apply(event).freed == freed


def test_a_heartbeat_of_a_node_is_no_change():
    world = mirror(NodeApplied(node()))
    before = world.changes
    world.apply(NodeApplied(node()))
    assert world.changes == before
    world.apply(NodeApplied(node(cpu=3000)))
    assert world.changes == before + 1
    world.apply(NodeApplied(node(cpu=3000, tier="cloud")))
    assert world.changes == before + 2


def test_a_node_whose_tier_is_another_one_now_is_a_change():
    world = mirror(NodeApplied(node()))
    before = world.changes
    world.tiers = Tiers(labels=("example.com/tier",))
    world.apply(NodeApplied(node()))
    assert world.changes == before + 1


def full_node():
    """A node of two cores that a pod fills, and one that waits for it."""
    low, high = pod("low", node_name="n2", pod_class=LARGER), pod("high")
    return mirror(NodeApplied(node(cpu=2000)), PodApplied(low), PodApplied(high)), low, high


def test_nominated_room_is_nobodys_and_the_pod_is_not_placed():
    made, low, high = full_node()
    made.nominate(high, "n2")
    made.check_invariants()
    snapshot = made.snapshot()
    assert (snapshot.free["n2"].cpu, snapshot.free["n2"].pods) == (-1000, 8)
    assert high.uid not in snapshot.placed
    assert not made.has_reservation(high.uid)
    made.apply(PodDeleted(low.uid, low.namespace, low.name))
    with pytest.raises(ReservationError):
        made.reserve("another", "n2", Resources(cpu=1500))
    made.reserve("small", "n2", ONE_CORE.requests)
    made.check_invariants()


def test_nominated_room_is_held_once_and_given_back():
    made, _, high = full_node()
    told, before = released(made), made.free["n2"]
    made.nominate(high, "n2")
    made.nominate(high, "n2")
    made.withdraw(high.uid, silently=True)
    assert (made.free["n2"], told) == (before, [])
    made.nominate(high, "n2")
    made.withdraw(high.uid)
    made.withdraw(high.uid)
    assert made.free["n2"] == before
    assert [change.freed for change in told] == [Freed("n2", ONE_CORE.requests)]
    made.check_invariants()


def test_a_nominated_pod_may_still_reserve_room_elsewhere():
    made, _, high = full_node()
    made.apply(NodeApplied(node("n5")))
    made.nominate(high, "n2")
    made.reserve(high.uid, "n5", high.requests)
    assert made.has_reservation(high.uid)
    assert made.snapshot().placed[high.uid] == "n5"
    made.check_invariants()


def known(*events):
    return mirror(*events).snapshot().surroundings


def test_a_kind_is_known_from_the_first_we_hear_of_it():
    assert known(KindKnown(Claim)) == Surroundings({Claim: {}})
    volume = Volume("pv")
    assert known(SurroundingApplied(volume), KindKnown(Volume)) == Surroundings(
        {Volume: {("pv",): volume}}
    )


def test_the_last_state_counts_and_what_is_deleted_is_gone():
    old, new = Claim("shop", "data"), Claim("shop", "data", volume="pv", bound=True)
    other = Claim("other", "data")
    events = [SurroundingApplied(thing) for thing in (old, other, new)]
    assert known(*events).of(Claim) == {("shop", "data"): new, ("other", "data"): other}
    gone = known(*events, SurroundingDeleted(Claim, ("shop", "data")))
    assert gone.of(Claim) == {("other", "data"): other}
    assert known(SurroundingDeleted(StorageClass, ("x",))).kinds == {StorageClass: {}}


def test_each_event_says_what_was_and_what_is():
    made = mirror()
    old, new = Claim("shop", "data"), Claim("shop", "data", volume="pv", bound=True)
    assert made.apply(KindKnown(Claim)) == Change(known=Claim)
    assert made.apply(SurroundingApplied(old)) == Change(surrounding_after=old)
    changed = Change(surrounding_before=old, surrounding_after=new)
    assert made.apply(SurroundingApplied(new)) == changed
    gone = made.apply(SurroundingDeleted(Claim, ("shop", "data")))
    assert gone == Change(surrounding_before=new)


def test_a_namespace_carries_its_name_even_if_we_were_not_told_of_it():
    named = (Surroundings(), Surroundings().with_object(Namespace("x", {"a": "1"})))
    for surroundings in named:
        assert surroundings.namespace_selected((), "x")
        assert not surroundings.namespace_selected(None, "x")
