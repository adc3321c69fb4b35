"""KubeDSM under changed settings, as a policy of a replay."""

import pytest

from kubedsm.config.documents import DocumentError
from kubedsm.config.settings import Configuration, with_settings
from kubedsm_lab.replay.variants import UnknownPolicyError, contender


def test_settings_change_what_they_name_and_nothing_else():
    changed = with_settings(
        Configuration(), {"suggester.period": "7s", "suggester.defragment": "true"}
    )
    assert changed.suggester.period == 7
    assert changed.suggester.defragment is True
    back = {"suggester.period": "5s", "suggester.defragment": "false"}
    assert with_settings(changed, back) == with_settings(Configuration(), back)


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("suggester.perod", "5s", "suggester.perod: unknown key; did you mean period?"),
        ("suggester.period", "5", "suggester.period: 5 is not a duration"),
        ("suggester.period", "[", "not YAML"),
        ("schedulerName.x", "5", "schedulerName: no section"),
        ("", "5", "'': unknown key"),
    ],
)
def test_a_setting_that_is_none_is_refused(key, value, complaint):
    with pytest.raises(DocumentError, match="^" + complaint.replace("?", r"\?")):
        with_settings(Configuration(), {key: value})


def test_settings_make_a_contender():
    reconfigure = contender("suggester.period=7s+objective.gamma=3", ()).reconfigure
    changed = reconfigure(Configuration())
    assert (changed.suggester.period, changed.objective.gamma) == (7, 3)
    with pytest.raises(UnknownPolicyError, match="unknown key; did you mean period"):
        contender("suggester.perod=7s", ())
