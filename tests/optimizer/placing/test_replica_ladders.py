"""Crowds are those of every node, looked at by itself."""

import numpy as np

from kubedsm.optimizer.placing.replica_spreading import Crowds
from support import drawing
from support.drawn_packings import drawn_packing, drawn_spread


def test_the_crowd_of_a_node_is_what_a_pod_would_join_there():
    shared = several = 0
    for seed in drawing.drawn(range(300)):
        packing, _ = drawn_packing(seed)
        spread, index = drawn_spread(seed, packing), packing.rows.index
        for kind in packing.kinds:
            workloads = sorted({pod.workload for pod in kind.pods})
            crowds = Crowds.of(kind.nodes, workloads, index, spread)
            joined = [[spread.company(w, name) for w in workloads] for name in index.names]
            assert crowds.crowds[crowds.group].tolist() == joined, seed
            open_to = [row for row, here in zip(joined, kind.nodes, strict=True) if here]
            floor = np.min(open_to, axis=0).tolist() if open_to else [0] * len(workloads)
            assert [crowds.everywhere(w) for w in workloads] == floor
            positions = np.arange(0, len(index), 2)
            times = crowds.times(positions)
            assert sorted(np.repeat(crowds.crowds, times, axis=0).tolist()) == sorted(joined[::2])
            shared += len(set(crowds.group.tolist())) < len(index)
            several += len(workloads) > 1
    assert min(shared, several) >= 40


def test_without_workloads_that_are_spread_all_nodes_are_alike():
    packing, _ = drawn_packing(1)
    crowds = Crowds.of(packing.kinds[0].nodes, (), packing.rows.index, drawn_spread(1, packing))
    assert set(crowds.group.tolist()) == {0}
    assert crowds.crowds.shape == (1, 0)
