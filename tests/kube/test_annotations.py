"""A tenant's annotations: what is understood, and what is said of the rest."""

import pytest

from kubedsm.kube.wire import decoding
from kubedsm.model.model import Wishes


def wishes(**annotations):
    named = {f"kubedsm.io/{name}": value for name, value in annotations.items()}
    metadata = {"name": "a", "namespace": "shop", "uid": "u", "annotations": named}
    return decoding.pod({"metadata": metadata, "spec": {"containers": []}}).wishes


@pytest.mark.parametrize(
    ("text", "qos"),
    [("0", 0.0), ("1", 1.0), ("0.5", 0.5), (".25", 0.25), ("1.0", 1.0), (" 0.5\n", 0.5)],
)
def test_a_share_is_a_number_between_0_and_1(text, qos):
    assert wishes(qos=text) == Wishes(qos)


@pytest.mark.parametrize(
    "text", ["", "2", "-0.1", "1.1", "nan", "inf", "50%", "half", "1e-1", "\u0660"]
)
def test_another_share_is_ignored_with_the_reason(text):
    said = f"kubedsm.io/qos: {text!r} is not a number between 0 and 1"
    assert wishes(qos=text) == Wishes(None, "", (said,))


@pytest.mark.parametrize("mode", ["surge", "recreate", "off"])
def test_a_mode_is_one_of_the_configurations(mode):
    assert wishes(migration=mode) == Wishes(None, mode)


def test_another_mode_is_ignored_and_the_share_is_not():
    said = "kubedsm.io/migration: 'never' is not surge, recreate or off"
    assert wishes(qos="0.5", migration="never") == Wishes(0.5, "", (said,))


@pytest.mark.parametrize(
    ("text", "rate"), [("0", 0.0), ("120", 120.0), ("0.5", 0.5), (".25 ", 0.25), ("1000000", 1e6)]
)
def test_a_rate_is_a_number_of_requests(text, rate):
    assert wishes(rate=text) == Wishes(rate=rate)
    assert wishes(qos="0.5", rate=text) == Wishes(0.5, rate=rate)


@pytest.mark.parametrize("text", ["", "-1", "nan", "inf", "1e3", "5/s", "1000001", "9" * 40])
def test_another_rate_is_ignored_with_the_reason(text):
    said = f"kubedsm.io/rate: {text!r} is not a number of requests/s between 0 and 1000000"
    assert wishes(rate=text) == Wishes(ignored=(said,))


def test_demand_is_sites_with_weights():
    assert wishes(demand="munich=1, berlin=3.5").demand == (("berlin", 3.5), ("munich", 1.0))


@pytest.mark.parametrize(
    "text",
    [
        *("", "berlin", "berlin=-1", "berlin=inf", "berlin=nan", "berlin=0", "a=1,a=2", "a=1,,b=1"),
        ",".join(f"s{i}=1" for i in range(65)),
        "a" * 9999,
    ],
)
def test_other_demand_is_ignored_with_the_reason(text):
    found = wishes(demand=text)
    assert found.demand == ()
    [said] = found.ignored
    assert said.startswith("kubedsm.io/demand: ")
    assert said.endswith("is not up to 64 sites with weights, not all 0, such as berlin=3,munich=1")
    assert len(said) < 250


def test_what_is_ignored_is_short():
    [said] = wishes(qos="9" * 200_000).ignored
    assert len(said) < 200


def test_without_them_there_are_none():
    assert wishes() is None
    assert wishes(other="x") is None
