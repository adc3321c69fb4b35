"""What is neither node nor pod, as the mirror is told of it."""

from kubedsm.model.events import Change, KindKnown, SurroundingApplied, SurroundingDeleted
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.surroundings import Claim, Namespace, StorageClass, Surroundings, Volume


def told(*events):
    mirror = ClusterMirror()
    for event in events:
        mirror.apply(event)
    return mirror.snapshot().surroundings


def test_a_kind_is_known_from_the_first_we_hear_of_it():
    assert told(KindKnown(Claim)) == Surroundings(claims={})
    volume = Volume("pv")
    assert told(SurroundingApplied(volume), KindKnown(Volume)) == Surroundings(
        volumes={("pv",): volume}
    )


def test_the_last_state_counts_and_what_is_deleted_is_gone():
    old, new = Claim("shop", "data"), Claim("shop", "data", volume="pv", bound=True)
    other = Claim("other", "data")
    events = [SurroundingApplied(thing) for thing in (old, other, new)]
    assert told(*events).claims == {("shop", "data"): new, ("other", "data"): other}
    gone = told(*events, SurroundingDeleted(Claim, ("shop", "data")))
    assert gone.claims == {("other", "data"): other}
    assert told(SurroundingDeleted(StorageClass, ("x",))).storage_classes == {}


def test_each_event_says_what_was_and_what_is():
    mirror = ClusterMirror()
    old, new = Claim("shop", "data"), Claim("shop", "data", volume="pv", bound=True)
    assert mirror.apply(KindKnown(Claim)) == Change(known=Claim)
    assert mirror.apply(SurroundingApplied(old)) == Change(surrounding_after=old)
    changed = Change(surrounding_before=old, surrounding_after=new)
    assert mirror.apply(SurroundingApplied(new)) == changed
    gone = mirror.apply(SurroundingDeleted(Claim, ("shop", "data")))
    assert gone == Change(surrounding_before=new)


def test_a_namespace_carries_its_name_even_if_we_were_not_told_of_it():
    named = (Surroundings(), Surroundings().with_object(Namespace("x", {"a": "1"})))
    for surroundings in named:
        assert surroundings.namespace_selected((), "x")
        assert not surroundings.namespace_selected(None, "x")
