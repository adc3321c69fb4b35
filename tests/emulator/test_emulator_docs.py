"""docs/emulator.md says what the emulated cluster answers, and which kinds there are."""

import re
from pathlib import Path

import pytest

from kubedsm_lab.emulator.actors.kubelet import NEVER_READY
from kubedsm_lab.emulator.api.object_state import DISCONNECTED
from kubedsm_lab.emulator.api.resources import SERVED
from support.api_requests import asked

PAGE = " ".join((Path(__file__).parents[2] / "docs" / "emulator.md").read_text().split())
PLURALS = {resource.plural for resource in SERVED}
PODS = "/api/v1/namespaces/default/pods/a"


@pytest.mark.parametrize(
    "path",
    [f"{PODS}/{part}" for part in ("exec", "attach", "portforward", "ephemeralcontainers")]
    + [f"{PODS}/proxy", "/api/v1/namespaces/default/services/web/proxy/metrics"],
)
def test_each_refusal_is_on_the_page(routes, path):
    status, answer = asked(routes, "GET", path)
    assert status == 501
    why = answer["message"].partition(": ")[2].rpartition(" (")[0]
    assert f"{why}`" in PAGE


def listed(begin: str, end: str) -> set[str]:
    """The kinds that a sentence names, as the API does."""
    text = PAGE.partition(begin)[2].partition(end)[0]
    return {word.lower() for word in re.findall(r"\b[A-Z][A-Za-z]+", text)}


def test_what_is_kept_is_served_and_what_is_not_there_is_not():
    kept = listed("nothing comes of them: ", "Not there at all")
    absent = listed("Not there at all: ", ". ##")
    assert (len(kept), len(absent)) == (3, 8)
    assert kept <= PLURALS
    assert not absent & PLURALS


def test_annotations_are_called_what_they_are():
    assert f"{NEVER_READY}: " in PAGE
    assert f"{DISCONNECTED}=true" in PAGE
