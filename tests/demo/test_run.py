"""The demo's day is shortened, and so must be all that is measured in its seconds."""

import pytest

from kubedsm.config.settings import Configuration
from kubedsm_lab.demo.setting import CONFIGURATION, CYCLE

#: seconds of a cycle of the load in the paper
PAPERS_CYCLE = 90.0


def test_a_move_costs_as_much_of_a_cycle_as_it_does_in_the_paper():
    price = Configuration().migration.price * CYCLE / PAPERS_CYCLE
    assert CONFIGURATION.migration.price == pytest.approx(price, rel=0.1)
