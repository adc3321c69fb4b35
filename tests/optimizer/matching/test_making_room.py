"""Pods that make room for others, on placements that leave pods out."""

import attrs
import numpy as np

from kubedsm.model.deadline import NO_DEADLINE, Deadline
from kubedsm.optimizer.matching.best_fit import add_by_ejection_chains, best_fit_increasing
from kubedsm.optimizer.matching.match import Bounds, build_table
from support import drawing
from support.drawn_packings import drawn_packing


def test_what_comes_of_it_fits_and_is_seldom_less_than_could_be():
    placed = most = before = 0
    for seed in drawing.drawn(range(300)):
        packing, _ = drawn_packing(seed)
        packing = attrs.evolve(packing, ladders=None)
        begun = best_fit_increasing(packing)
        found = add_by_ejection_chains(packing, begun, 3, 100, NO_DEADLINE)
        assert (packing.room_after(found) >= 0).all()
        assert (found <= packing.most).all()
        assert (found.sum(axis=0) <= packing.counts).all()
        assert found.sum() >= begun.sum()
        late = add_by_ejection_chains(packing, begun, 3, 100, Deadline(lambda: 1.0))
        assert (late == begun).all()
        table = build_table(packing, None, Bounds())
        best = max((sum(v) for v in np.argwhere(table.costs() < 2**61).tolist()), default=0)
        before += int(begun.sum())
        placed += int(found.sum())
        most += best
    assert before < placed <= most
    assert placed >= most - 2
