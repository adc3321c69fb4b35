"""`kubedsm replay --preset hpa`."""

from collections.abc import Sequence

from kubedsm.replay.files import Pictures
from kubedsm.replay.hpa.plan import FULL, SHORT
from kubedsm.replay.hpa.tables import MODELLED, SECTIONS
from kubedsm.replay.hpa.trial import Outcome, play
from kubedsm.replay.trials import Preset


def _pictures(done: Sequence[Outcome]) -> Pictures:
    from kubedsm.replay.hpa.pictures import pictures  # noqa: PLC0415 - needs an extra

    return pictures(done)


PRESET = Preset("hpa", SHORT, FULL, play, MODELLED, SECTIONS, _pictures)
