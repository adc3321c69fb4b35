"""What "Priority Matters" published, for our tables to stand beside.

Source: arXiv 2511.08373, and the result files of its authors' program: four priorities throughout.
"""

from collections.abc import Mapping

from kubedsm_lab.replay.packing.attempts import Category

#: of its tables and figures
PRIORITIES = 4
#: in this order below
CATEGORIES = tuple(Category)
#: percent of the instances, by seconds and nodes
BY_NODES: Mapping[tuple[int, int], tuple[int, ...]] = {
    (1, 4): (2, 15, 42, 2, 38),
    (1, 8): (5, 9, 20, 23, 43),
    (1, 16): (36, 7, 6, 31, 20),
    (1, 32): (100, 0, 0, 0, 0),
    (10, 4): (2, 16, 43, 0, 40),
    (10, 8): (3, 8, 20, 11, 58),
    (10, 16): (3, 7, 8, 37, 46),
    (10, 32): (19, 0, 1, 59, 21),
    (20, 4): (2, 16, 42, 0, 41),
    (20, 8): (3, 9, 21, 8, 59),
    (20, 16): (3, 6, 10, 32, 50),
    (20, 32): (20, 0, 1, 52, 27),
}
#: percent of the calls, by seconds: better, and the default proven optimal
OF_CALLS: Mapping[int, tuple[float, float]] = {1: (44.2, 19.1), 10: (73.6, 19.8), 20: (72.5, 20.5)}
#: Figure 4: percent Better&Optimal, four pods a node, 10 s; by nodes, in the order of the usages
FIGURE_4: Mapping[int, tuple[int, ...]] = {
    4: (28, 39, 41, 35),
    8: (60, 69, 68, 61),
    16: (78, 60, 61, 52),
    32: (78, 17, 16, 11),
}
#: Table 1, 10 s: nodes and pods a node of its columns
COLUMNS = ((4, 4), (8, 4), (16, 4), (32, 4), (4, 8), (8, 8))
#: by usage: seconds, and how much more of cpu and of memory is requested by pods placed, percent
TABLE_1: Mapping[int, tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]] = {
    90: ((0.9, 1.2, 2.4, 5.9, 1.0, 1.1), (3.3, 3.5, 3.4, 4.0, 3.9, 2.6),
         (3.1, 3.7, 3.1, 3.9, 3.4, 2.6)),
    95: ((0.9, 1.7, 5.0, 9.8, 1.1, 1.5), (2.4, 3.3, 3.6, 4.3, 2.6, 2.9),
         (2.4, 3.3, 3.7, 4.3, 2.6, 2.9)),
    100: ((0.9, 1.7, 5.2, 10.1, 1.0, 5.0), (2.5, 2.8, 3.2, 3.2, 1.8, 3.3),
          (2.1, 2.5, 3.0, 3.3, 2.1, 3.1)),
    105: ((0.9, 1.6, 6.0, 10.2, 1.2, 6.2), (2.1, 2.6, 3.2, 1.9, 2.5, 2.3),
          (1.8, 2.1, 2.9, 2.1, 2.4, 2.8)),
}  # fmt: skip
#: by usage: KWOK Optimal and Better&Optimal at 4 nodes and 4 pods a node, 10 s, in percent
FOUR_BY_FOUR: Mapping[int, tuple[int, int]] = {
    90: (48, 28),
    95: (57, 39),
    100: (57, 41),
    105: (63, 35),
}
