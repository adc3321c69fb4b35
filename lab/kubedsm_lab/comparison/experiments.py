"""All experiments, in the order of the page."""

from collections.abc import Sequence

from kubedsm_lab.comparison.burst import BURST
from kubedsm_lab.comparison.experiment import Experiment
from kubedsm_lab.comparison.hpa import HPA
from kubedsm_lab.comparison.load_aware import LOAD_AWARE
from kubedsm_lab.comparison.nodes import NODES
from kubedsm_lab.comparison.packing import PACKING
from kubedsm_lab.comparison.paper import PAPER

EXPERIMENTS: Sequence[Experiment] = (BURST, HPA, NODES, PAPER, LOAD_AWARE, PACKING)
