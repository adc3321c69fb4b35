"""`kubedsm replay --preset load-aware`."""

from kubedsm_lab.replay.load_aware.pictures import pictures
from kubedsm_lab.replay.load_aware.plan import FULL, SHORT
from kubedsm_lab.replay.load_aware.tables import MODELLED, SECTIONS, Of, answer
from kubedsm_lab.replay.load_aware.trial import play
from kubedsm_lab.replay.trials import Preset

PRESET = Preset(
    "load-aware", SHORT, FULL, play, MODELLED, SECTIONS, pictures, answer,
    lambda done: Of(done).contenders,
)  # fmt: skip
