"""The ways of a pod and of a migration through the code stay short."""

from kubedsm_lab.replay.virtual_time import run_in_virtual_time
from support.walks import one_migration, one_pod


def test_a_plain_pod_passes_few_functions_from_created_to_bound():
    walk = run_in_virtual_time(one_pod())
    assert len(walk.functions) <= 180, walk
    assert len(walk.modules) <= 45, walk


def test_a_migration_crosses_few_borders_of_modules():
    walk = run_in_virtual_time(one_migration())
    assert walk.crossings <= 900, walk
