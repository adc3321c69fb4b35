"""KubeDSM under changed settings, as a policy of a replay."""

import pytest

from kubedsm.config.settings import Configuration
from kubedsm_lab.replay.variants import UnknownPolicyError, contender


def test_settings_make_a_contender():
    reconfigure = contender("suggester.period=7s+objective.gamma=3", ()).reconfigure
    changed = reconfigure(Configuration())
    assert (changed.suggester.period, changed.objective.gamma) == (7, 3)
    with pytest.raises(UnknownPolicyError, match="unknown key; did you mean period"):
        contender("suggester.perod=7s", ())
