"""All experiments, in the order of the page."""

from collections.abc import Sequence

from kubedsm.comparison.burst import BURST
from kubedsm.comparison.experiment import Experiment
from kubedsm.comparison.hpa import HPA
from kubedsm.comparison.load_aware import LOAD_AWARE
from kubedsm.comparison.nodes import NODES
from kubedsm.comparison.packing import PACKING
from kubedsm.comparison.paper import PAPER

EXPERIMENTS: Sequence[Experiment] = (BURST, HPA, NODES, PAPER, LOAD_AWARE, PACKING)
