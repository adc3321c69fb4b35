"""`kubedsm pack --from`: what is said of dumps."""

import json

import pytest

from support.command_line import kubedsm
from support.dumps import dump_of, node, replica


def running(name, on, memory="2Gi"):
    return replica(name, name, on, memory=memory)


def waiting(name, memory="3Gi", **spec):
    return replica(name, name, memory=memory, **spec)


@pytest.fixture
def said_of(tmp_path):
    def said(*items, configuration="", output="json"):
        dump, config = tmp_path / "dump.json", tmp_path / "config.yaml"
        dump.write_bytes(dump_of(*items))
        config.write_text(configuration or "{}", encoding="utf-8")
        ended = kubedsm("pack", "--from", dump, "--config", config, "-o", output)
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout) if output == "json" else ended.stdout

    return said


TWO = [node("c1", "cloud", memory="4Gi"), node("c2", "cloud", memory="4Gi")]
IN_PIECES = [*TWO, running("a", "c1"), running("b", "c2")]


def test_it_says_what_moves_who_gets_a_node_and_how_sure_that_is(said_of):
    said = said_of(*IN_PIECES, waiting("large"))
    [move] = said["moves"]
    assert move["kind"] == "cloud-to-cloud"
    assert said["order"] == [[move["pod"]]]
    assert said["awaited"] == [{"pod": "shop/large", "node": move["from"]}]
    assert said["placed"] == [{"priority": 0, "before": 2, "after": 3}]
    assert (said["evicted"], said["waiting"]) == ([], [])
    assert said["proven"] is said["placedProven"] is True
    assert [each["goal"] for each in said["certificates"]] == ["placed", "staying"]
    told = said_of(*IN_PIECES, waiting("large"), output="text")
    assert "Pods placed: 1, still pending: 0, migrated: 1, evicted: 0." in told


@pytest.mark.parametrize("command", ["place", "suggest"])
def test_commands_that_free_no_capacity_refer_to_this_one(command, tmp_path):
    """Pods of 2, 2 and 3 GiB on two nodes of 4 GiB: one migration places all."""
    dump, line = tmp_path / "dump.json", "Not evaluated: migrations that free capacity for 1 pend"
    dump.write_bytes(dump_of(*IN_PIECES, waiting("large")))
    assert line in kubedsm(command, "--from", dump).stdout
    dump.write_bytes(dump_of(*IN_PIECES))
    assert line not in kubedsm(command, "--from", dump).stdout


def test_it_says_that_nothing_makes_room_and_whether_that_is_proven(said_of):
    """4 GiB are free in all, but there are no two ways to put the others."""
    said = said_of(*IN_PIECES, waiting("large", memory="5Gi"))
    assert (said["moves"], said["awaited"], said["placedProven"]) == ([], [], True)
    assert said["waiting"] == ["shop/large"]
    told = said_of(*IN_PIECES, waiting("large", memory="5Gi"), output="text")
    assert "No migration frees capacity for a pending pod: proven." in told
    assert said_of(*IN_PIECES, output="text") == "No pod is pending.\n"


def test_pods_that_are_scheduled_as_they_are_need_no_packing(said_of):
    said = said_of(*IN_PIECES, waiting("large"), waiting("small", memory="1Gi"))
    assert [each["pod"] for each in said["scheduled"]] == ["shop/small"]
    assert [each["pod"] for each in said["awaited"]] == ["shop/large"]
    told = said_of(*TWO, waiting("large"), output="text")
    assert "No migration is needed: all pending pods fit (1)." in told


def test_priority_and_configuration_decide_who_may_be_moved(said_of):
    full = [TWO[0], running("a", "c1", memory="4Gi")]
    waits = waiting("large", memory="4Gi", priority=10)
    assert said_of(*full, waits)["evicted"] == []
    said = said_of(*full, waits, configuration="optimiser: {allowEvictions: true}")
    assert said["evicted"] == ["shop/a"]
    assert said["awaited"] == [{"pod": "shop/large", "node": "c1"}]
    said = said_of(*IN_PIECES, waiting("large"), configuration="migration: {mode: 'off'}")
    assert (said["moves"], said["waiting"]) == ([], ["shop/large"])
