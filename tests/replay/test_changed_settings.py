"""KubeDSM under changed settings, as a policy of a replay."""

import pytest

from kubedsm.config.settings import Configuration
from kubedsm_lab.replay.changed_settings import with_settings
from kubedsm_lab.replay.variants import UnknownPolicyError, contender


def test_settings_change_what_they_name_and_nothing_else():
    changed = with_settings(
        Configuration(), {"suggester.period": "7s", "suggester.defragment": "true"}
    )
    assert changed.suggester.period == 7
    assert changed.suggester.defragment is True
    back = {"suggester.period": "5s", "suggester.defragment": "false"}
    assert with_settings(changed, back) == with_settings(Configuration(), back)


def test_settings_make_a_contender():
    reconfigure = contender("suggester.period=7s+objective.gamma=3", ()).reconfigure
    changed = reconfigure(Configuration())
    assert (changed.suggester.period, changed.objective.gamma) == (7, 3)
    with pytest.raises(UnknownPolicyError, match="unknown key; did you mean period"):
        contender("suggester.perod=7s", ())
