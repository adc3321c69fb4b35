"""What kubectl explain reads, and where kubectl looks whether there is such a kind."""

import re
import runpy
from importlib.metadata import version
from pathlib import Path

import orjson
import pytest

from kubedsm_lab.emulator.api.decoding import BODIES, FIELD_TYPES, model_of
from kubedsm_lab.emulator.api.resources import SERVED
from kubedsm_lab.emulator.http.routes import ApiRequest
from support.api_requests import asked

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


def test_every_served_kind_has_its_fields(documents):
    kinds = {
        (kind["group"], kind["version"], kind["kind"])
        for document in documents.values()
        for schema in document["components"]["schemas"].values()
        for kind in schema.get("x-kubernetes-group-version-kind", ())
    }
    assert kinds == {(r.group, r.version, r.kind) for r in SERVED}


def test_every_reference_leads_somewhere(documents):
    for document in documents.values():
        text = orjson.dumps(document).decode()
        names = set(re.findall(r"#/components/schemas/([^\"]+)", text))
        assert names <= document["components"]["schemas"].keys()


def test_fields_are_found_from_the_kind_down(documents):
    schemas = documents["api/v1"]["components"]["schemas"]

    def field(schema, name):
        found = schema["properties"][name]
        found = found.get("items", found)
        reference = found.get("$ref")
        return schemas[reference.rpartition("/")[2]] if reference else found

    resources = schemas["io.k8s.V1.Pod"]
    for name in ("spec", "containers", "resources"):
        resources = field(resources, name)
    amounts = {"type": "object", "additionalProperties": {"type": "string"}}
    assert resources["properties"]["requests"] == amounts
    assert field(schemas["io.k8s.V1.PodSpec"], "priority") == {"type": "integer"}


def test_kubectl_finds_nothing_in_the_old_form(routes):
    """Then it asks discovery, and says that there are no matches for the kind."""
    media_type = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    answer = routes.handle(ApiRequest("GET", "/openapi/v2", accept=media_type))
    assert (answer.status, answer.body) == (200, b"")
    assert asked(routes, "GET", "/openapi/v2")[1]["swagger"] == "2.0"


@pytest.mark.skipif(version("kubernetes_asyncio") != TAKEN_FROM, reason="of another Kubernetes")
def test_the_fields_are_those_of_the_library():
    fields_of = runpy.run_path(str(ROOT / "docs" / "generate.py"))["list_fields"]
    known = orjson.loads(FIELD_TYPES.read_bytes())
    assert known == fields_of([model_of(r) for r in (*SERVED, *BODIES)]), (
        "run `python docs/generate.py`"
    )
