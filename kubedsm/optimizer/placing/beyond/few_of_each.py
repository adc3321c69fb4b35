"""A few nodes of each sort, where there are too many for a solver to be told of all.

Nodes are of a sort if a batch cannot tell them apart: the same pods may come there, there is as
much room, and they are in the same domains, apart from those that each has by itself.
"""

from collections.abc import Iterable

import numpy as np

from kubedsm.model.node_index import Ints, Mask
from kubedsm.model.residents import Selection
from kubedsm.optimizer.matching.problem import Packing
from kubedsm.plugins.scene import EquivalenceClass, Scene, node_labels


def few_of_each(
    packing: Packing, likes: Iterable[EquivalenceClass], scene: Scene, few: int
) -> Mask:
    """N, so many of the packing's nodes, one of each sort before a second of any.

    likes: of its kinds.
    """
    rules = [like.rules for like in likes]
    positions = packing.rows.positions
    sorts = [packing.free.T, packing.fitting.T, packing.penalties.T]
    for key in dict.fromkeys(key for of_kind in rules for key in node_labels(of_kind)):
        codes = scene.nodes.label(key).codes
        alone = np.bincount(codes)[codes] == 1
        sorts.append(np.where(alone, -1, codes)[None, positions])
    looks = {tuple(map(Selection.of, of_kind.affinity)) for of_kind in rules}
    looks |= {
        (Selection(constraint.selector, (constraint.namespace,)),)
        for of_kind in rules
        for constraint in of_kind.spread
    }
    sorts += [scene.residents.counts(look)[None, positions] for look in looks if look]
    _, sort = np.unique(np.concatenate(sorts), axis=1, return_inverse=True)
    return _number(sort.ravel()).argsort(kind="stable").argsort() < few


def _number(sort: Ints) -> Ints:
    """How many of its sort come before each."""
    order = sort.argsort(kind="stable")
    first = np.searchsorted(sort[order], sort[order])
    number = np.empty_like(sort)
    number[order] = np.arange(len(sort)) - first
    return number
