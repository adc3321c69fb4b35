"""Any text is a configuration or refused in one line, and every configuration has its text."""

import jsonschema
import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubedsm.config.documents import DocumentError
from kubedsm.config.settings import Configuration, dump, list_mistakes, load, schema
from support.any_configurations import configurations, documents, latencies, objectives
from support.drawing import examples

SCHEMA = jsonschema.Draft202012Validator(schema())


@examples(100)
@given(documents)
def test_anything_is_a_configuration_or_one_line(text):
    try:
        given = load(text, "x")
    except DocumentError as error:
        message = str(error)
        assert message.startswith(str(list_mistakes(text, "x")[0]))
    else:
        assert load(dump(given), "again") == given
        message = "x: a configuration"
    assert message.startswith("x: ")
    assert len(message.splitlines()) == 1


@examples(30)
@given(configurations)
def test_every_configuration_comes_back_from_its_text(configuration):
    text = dump(configuration)
    assert load(text, "dumped") == configuration
    assert list_mistakes(text, "dumped") == []
    SCHEMA.validate(msgspec.yaml.decode(text))


@given(latencies(), st.floats(0, 60))
def test_the_share_a_target_asks_for_is_a_share(latency, target):
    assert 0 <= latency.times.qos(target) <= 1


@given(objectives())
def test_every_configured_objective_can_be_built(section):
    assert Configuration(objective=section).objective_function.gamma == section.gamma


def test_it_is_a_schema_and_takes_what_is_right():
    SCHEMA.check_schema(schema())
    SCHEMA.validate(yaml.safe_load(dump(Configuration())))
    for text in (
        *("batch:", "tiers: {label: a, edge: [b, c]}", "suggester: {mode: off, maxMoves: 1}"),
        "{}",
    ):
        SCHEMA.validate(yaml.safe_load(text))


@pytest.mark.parametrize(
    "text",
    [
        *("batsh: {}", "batch: {size: 0}", "batch: {size: many}", "batch: {idle: 5}"),
        *("batch: {idle: 5 seconds}", "suggester: {mode: on}", "suggester: {defragment: 1}"),
        *("services: {cart: {qos: 1}}", "services: {shop/cart: {qos: 2}}", "schedulerName: A B"),
        *("services: {'*/*': {qos: 1}}", "tiers: {edge: []}", "kind: ConfigMap"),
        "fairness: {namespaces: {A: 1}}",
    ],
)
def test_what_is_wrong_is_refused(text):
    with pytest.raises(jsonschema.ValidationError):
        SCHEMA.validate(yaml.safe_load(text))
