"""Chaos with hostile clients notices a listener without limits, and one that logs each request."""

import math

import attrs
import pytest

from kubedsm.observability import server
from kubedsm.process import http_limits as listening
from kubedsm.process import log_throttle as said_by_cause
from kubedsm_lab.chaos import hostile_connections
from kubedsm_lab.chaos.hostile_connections import attack

pytestmark = pytest.mark.http


# `kubedsm chaos`, which .ci/run runs, does the same.
@pytest.mark.long
def test_a_scheduler_keeps_its_lease_and_binds_pods_among_hostile_clients():
    assert attack() == []


@pytest.mark.long
def test_a_listener_without_limits_is_noticed(monkeypatch):
    endless = attrs.evolve(listening.METRICS, connections=10_000, per_address=10_000)
    monkeypatch.setattr(server, "METRICS", endless)
    monkeypatch.setattr(hostile_connections, "_PATIENCE", 2.0)
    monkeypatch.setattr(hostile_connections, "_EACH", 45)
    assert "metrics: more than 128 connections" in attack()


@pytest.mark.long
def test_a_line_for_each_request_is_noticed(monkeypatch):
    monkeypatch.setattr(said_by_cause, "PERIOD", -math.inf)
    monkeypatch.setattr(hostile_connections, "_EACH", 10)
    assert any("lines into the log" in violation for violation in attack())
