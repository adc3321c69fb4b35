"""What users do comes to the same end in whatever order tasks go on, and does what it is for."""

import pytest

from kubedsm_lab.chaos.sweep import reference
from kubedsm_lab.chaos.trace import Injection, play
from kubedsm_lab.chaos.workloads import WORKLOADS
from support.drawing import keep_one_in


@pytest.mark.parametrize("workload", keep_one_in(5, WORKLOADS))
def test_a_workload_ends_well_and_always_the_same(workload):
    assert play(Injection(workload, (), 1), reference(workload, 0)).violations == ()
