"""Where kubectl looks whether there is such a kind."""

import runpy
from importlib.metadata import version
from pathlib import Path

import orjson
import pytest

from kubedsm_lab.emulator.api.decoding import BODIES, FIELD_TYPES, model_of
from kubedsm_lab.emulator.api.resources import SERVED
from support.api_cases import asked

ROOT = Path(__file__).parents[2]
#: whose models the fields were taken from
TAKEN_FROM = "36.1.0"


@pytest.fixture
def documents(routes):
    index = asked(routes, "GET", "/openapi/v3")[1]["paths"]
    return {
        prefix: asked(routes, "GET", entry["serverRelativeURL"])[1]
        for prefix, entry in index.items()
    }


def test_every_served_kind_is_found(documents):
    kinds = {
        (kind["group"], kind["version"], kind["kind"])
        for document in documents.values()
        for operations in document["paths"].values()
        for operation in operations.values()
        for kind in [operation["x-kubernetes-group-version-kind"]]
    }
    assert kinds == {(r.group, r.version, r.kind) for r in SERVED}


@pytest.mark.skipif(version("kubernetes_asyncio") != TAKEN_FROM, reason="of another Kubernetes")
def test_the_fields_are_those_of_the_library():
    fields_of = runpy.run_path(str(ROOT / "docs" / "generate.py"))["list_fields"]
    known = orjson.loads(FIELD_TYPES.read_bytes())
    assert known == fields_of([model_of(r) for r in (*SERVED, *BODIES)]), (
        "run `python docs/generate.py`"
    )
