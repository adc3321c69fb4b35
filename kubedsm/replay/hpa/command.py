"""`kubedsm replay --preset hpa`."""

from kubedsm.replay.hpa.pictures import pictures
from kubedsm.replay.hpa.plan import FULL, SHORT
from kubedsm.replay.hpa.tables import MODELLED, SECTIONS, answer, as_they_are
from kubedsm.replay.hpa.trial import play
from kubedsm.replay.trials import Preset

PRESET = Preset("hpa", SHORT, FULL, play, MODELLED, SECTIONS, pictures, answer, as_they_are)
