"""Verdict of `bench board` on runs with little CPU."""

import math

import pytest
from click.testing import CliRunner

from kubedsm_lab.bench.board import IDLE, Quality, Run
from kubedsm_lab.cli.bench import bench

FULL = Quality(placed=1000, at_edge=800, least_share=0.5, spread=9.0)
SHAPE = ["board", "--quotas", "50", "--load", "0"]


def run(*quality, seconds=(1.0, 2.0, 0.5, 40.0)):
    return Run(seconds, quality or (FULL, FULL, FULL), cpu=4.0)


def show(monkeypatch, limited):
    async def measured(shape, advance):
        return {IDLE: run(), "50% of a core": limited}

    monkeypatch.setattr("kubedsm_lab.bench.board.run", measured)
    return CliRunner().invoke(bench, SHAPE)


def test_a_later_run_with_another_spread_is_as_good(monkeypatch):
    limited = run(FULL, FULL, Quality(1000, 800, 0.5, 11.0), seconds=(2.0, 5.0, 1.5, 90.0))
    shown = show(monkeypatch, limited)
    assert shown.exit_code == 0
    assert "are equal in all runs" in shown.stdout
    assert "1000 / 1000" in shown.stdout


@pytest.mark.parametrize(
    "limited",
    [
        run(FULL, FULL, Quality(999, 800, 0.5, 9.0)),
        run(FULL, Quality(1000, 512, 0.5, 9.0), FULL),
        run(Quality(1000, 800, 0.4, 9.0), FULL, FULL),
        run(seconds=(1.0, 2.0, math.inf, 40.0)),
    ],
)
def test_a_worse_placement_or_none_in_time_fails(monkeypatch, limited):
    shown = show(monkeypatch, limited)
    assert shown.exit_code == 1
    assert "took too long: 50% of a core" in " ".join(shown.stdout.split())
