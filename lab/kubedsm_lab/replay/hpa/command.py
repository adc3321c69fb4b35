"""`kubedsm replay --preset hpa`."""

from kubedsm_lab.replay.hpa.pictures import pictures
from kubedsm_lab.replay.hpa.plan import FULL, SHORT
from kubedsm_lab.replay.hpa.tables import MODELLED, SECTIONS, answer, as_they_are
from kubedsm_lab.replay.hpa.trial import play
from kubedsm_lab.replay.trials import Preset

PRESET = Preset("hpa", SHORT, FULL, play, MODELLED, SECTIONS, pictures, answer, as_they_are)
