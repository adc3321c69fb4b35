"""`kubedsm replay --preset load-aware`."""

from collections.abc import Sequence

from kubedsm.replay.files import Pictures
from kubedsm.replay.load_aware.plan import FULL, SHORT
from kubedsm.replay.load_aware.tables import MODELLED, SECTIONS
from kubedsm.replay.load_aware.trial import Outcome, play
from kubedsm.replay.trials import Preset


def _pictures(done: Sequence[Outcome]) -> Pictures:
    from kubedsm.replay.load_aware.pictures import pictures  # noqa: PLC0415 - needs an extra

    return pictures(done)


PRESET = Preset("load-aware", SHORT, FULL, play, MODELLED, SECTIONS, _pictures)
