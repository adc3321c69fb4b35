"""Persistent maps, with immutables and without."""

import importlib.util
import random
import sys

import pytest

from kubedsm.model import persistent_map


@pytest.fixture(params=["immutables", "no immutables"])
def kind(request, monkeypatch):
    if request.param == "no immutables":
        monkeypatch.setitem(sys.modules, "immutables", None)
    spec = importlib.util.spec_from_file_location("fresh", persistent_map.__file__)
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    return fresh.Map


def test_updates_leave_former_maps_as_they_are(kind):
    rng, plain = random.Random(0), {}
    now, former = kind(), []
    for turn in range(300):
        former.append((now, dict(plain)))
        key = rng.randrange(20)
        if key in plain and turn % 2:
            now = now.delete(key)
            del plain[key]
        elif turn % 7:
            now, plain[key] = now.set(key, turn), turn
        else:
            now = now.update({key: turn, key + 1: turn})
            plain |= {key: turn, key + 1: turn}
    assert all(dict(map_.items()) == known for map_, known in [*former, (now, plain)])
