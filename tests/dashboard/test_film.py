"""What is kept of what was told, and what somebody is told who was away."""

import json

from kubedsm.dashboard import recording as films
from kubedsm.dashboard.recording import Recording
from kubedsm.dashboard.rows import Changes, Snapshot, StatusRow


def changes(version, **rows):
    """At the moment of its version; a row is its headline, or None."""
    status = {key: said and StatusRow(said) for key, said in rows.items()}
    return Changes(version, float(version), {"status": status})


def film(**bounds):
    return Recording(Snapshot(1, 1.0, {"status": {"now": StatusRow("first")}}, run="r"), **bounds)


def test_what_was_missed_comes_at_one_go_if_it_is_kept(monkeypatch):
    kept = film()
    for each in (changes(2, now="a", gone="b"), changes(3, now="c"), changes(4, gone=None)):
        kept.add(each)
    assert kept.since(1) == changes(4, now="c", gone=None)
    assert kept.since(3) == changes(4, gone=None)
    assert kept.since(4) is None
    assert kept.since(5) is None
    kept = film(span=10.0)
    for version in range(2, 30):
        kept.add(changes(version, now=f"v{version}"))
    assert kept.since(1) is None
    assert kept.since(25) is not None
    monkeypatch.setattr(films, "MISSED", 3)
    kept = film()
    for version in range(2, 7):
        kept.add(changes(version, now=f"v{version}"))
    assert kept.since(2) is None
    assert kept.since(3) == changes(6, now="v6")


def test_who_has_a_part_of_it_is_told_the_rest_line_by_line():
    kept = film(span=20.0)
    for version in range(2, 30):
        kept.add(changes(version, now=f"v{version}"))
    begins, *rest = kept.lines()
    assert list(kept.lines(25)) == rest[-4:]
    assert list(kept.lines(29)) == []
    # Its end is no more kept.
    assert list(kept.lines(1)) == list(kept.lines(77)) == [begins, *rest]


def test_the_oldest_are_forgotten_and_the_film_still_says_how_things_stood():
    kept = film(room=2_000)
    for version in range(2, 200):
        kept.add(changes(version, now=f"v{version}", odd="odd" if version % 2 else None))
    first, *rest = map(json.loads, kept.lines())
    assert 1_500 < sum(map(len, kept.lines())) < 2_500
    assert (first["type"], first["run"]) == ("snapshot", "r")
    assert first["rows"]["status"]["now"] == {"headline": f"v{first['version']}"}
    assert ("odd" in first["rows"]["status"]) is bool(first["version"] % 2)
    assert [each["version"] for each in rest] == list(range(first["version"] + 1, 200))
