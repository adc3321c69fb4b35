"""`kubedsm replay --preset load-aware`."""

from kubedsm.replay.load_aware.pictures import pictures
from kubedsm.replay.load_aware.plan import FULL, SHORT
from kubedsm.replay.load_aware.tables import MODELLED, SECTIONS, Of, answer
from kubedsm.replay.load_aware.trial import play
from kubedsm.replay.trials import Preset

PRESET = Preset(
    "load-aware", SHORT, FULL, play, MODELLED, SECTIONS, pictures, answer,
    lambda done: Of(done).contenders,
)  # fmt: skip
