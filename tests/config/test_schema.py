"""The JSON Schema refuses what it can see to be wrong, and takes what is right."""

import jsonschema
import pytest
import yaml

from kubedsm.config.settings import Configuration, dump, schema

SCHEMA = jsonschema.Draft202012Validator(schema())


def test_it_is_a_schema_and_takes_the_defaults():
    SCHEMA.check_schema(schema())
    SCHEMA.validate(yaml.safe_load(dump(Configuration())))


@pytest.mark.parametrize(
    "text",
    ["batch:", "tiers: {label: a, edge: [b, c]}", "suggester: {mode: off, maxMoves: 1}", "{}"],
)
def test_other_ways_to_write_it_are_right(text):
    SCHEMA.validate(yaml.safe_load(text))


@pytest.mark.parametrize(
    "text",
    [
        "batsh: {}",
        "batch: {size: 0}",
        "batch: {size: many}",
        "batch: {idle: 5}",
        "batch: {idle: 5 seconds}",
        "suggester: {mode: on}",
        "suggester: {defragment: 1}",
        "services: {cart: {qos: 1}}",
        "services: {shop/cart: {qos: 2}}",
        "services: {'*/*': {qos: 1}}",
        "tiers: {edge: []}",
        "kind: ConfigMap",
        "schedulerName: A B",
        "fairness: {namespaces: {A: 1}}",
    ],
)
def test_what_is_wrong_is_refused(text):
    with pytest.raises(jsonschema.ValidationError):
        SCHEMA.validate(yaml.safe_load(text))
