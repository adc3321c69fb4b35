"""YAML as values, by either parser of PyYAML; and documents that are something else than wanted."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubedsm.config import yaml_text
from kubedsm.config.documents import CONFIGURATION, DocumentError
from kubedsm.config.settings import Configuration, load_file
from kubedsm.config.yaml_text import parse_yaml

LEAVES = st.none() | st.booleans() | st.integers(-5, 2**70) | st.text(max_size=8)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@pytest.fixture(params=["libyaml", "pure"], autouse=True, scope="module")
def parser(request):
    if request.param == "libyaml" and not yaml_text.FAST:
        pytest.skip("PyYAML without libyaml")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "pure":
            patch.setattr(yaml_text, "_PARSER", yaml.SafeLoader)
        yield


@given(JSON)
def test_what_was_written_is_read(value):
    assert parse_yaml(yaml.safe_dump(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("---\n", None),
        ("on", True),
        ("'on'", "on"),
        ("yes: no", {"yes": False}),
        ("1: 0x1f", {"1": 31}),
        ("null: 1\n~: 2", {"null": 1, "~": 2}),
        ("'on': 1\n\"off\": 2\n'3': 4", {"on": 1, "off": 2, "3": 4}),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("!!str 5", "5"),
        ("=", "="),
        ("[~, null, '', .inf, 1_000]", [None, None, "", float("inf"), 1000]),
        ("a: &x {b: [1]}\nc: *x", {"a": {"b": [1]}, "c": {"b": [1]}}),
        ("&k a: *k", {"a": "a"}),
    ],
)
def test_what_scalars_and_aliases_mean(text, value):
    assert parse_yaml(text) == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "not YAML: .*, line "),
        ("a: 1\n b: 2", r"not YAML: mapping values are not allowed .*, line 2, column 3"),
        ("a: {b: {c: 1, c: 2}}", r"a\.b\.c: given twice, line 1, column 15"),
        ("a: !!set {b}", r"a: '.*:set' has no meaning here, line 1, column 4"),
        ("a: {<<: {b: c}}", r"a\.<<: '.*:merge' has no meaning here, line 1, column 5"),
        ("{? {a: b} : c}", "a key must be text"),
        ("[" * 1000, "nested too deeply"),
        ("a: *b", "undefined alias 'b'"),
        ("a: &a [*a]", "undefined alias 'a'"),
        (
            "- &a0 [1, 1]\n"
            + "".join(f"- &a{n + 1} [*a{n}, *a{n}, *a{n}, *a{n}]\n" for n in range(9)),
            "its aliases repeat too much",
        ),
        ("a: 2\n---\nb: 3", "another document begins, line 2, column 1"),
        ("a: !!int x", "not YAML: "),
        ("a: \x00", "not YAML: "),
    ],
)
def test_what_is_refused(text, says):
    with pytest.raises(DocumentError, match=says) as refused:
        parse_yaml(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("apiVersion: apps/v1\nkind: Deployment\n---\nkind: Service", "a Deployment"),
        ("apiVersion: v1\nkind: ConfigMap", "a ConfigMap"),
        ("apiVersion: networking.k8s.io/v1\nkind: Ingress", "an Ingress"),
        ("apiVersion: v1\nkind: List\nitems: []", r"a dump of a cluster \(for --from\)"),
        ("apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []", "a kubeconfig"),
        ("nodes: [{name: e1}]", r"a file of nodes \(for --cluster\)"),
        ("services: [{name: a}]", r"a file of services \(for --services\)"),
        ('{"apis": [{"name": "a"}]}', r"a load scenario \(for `kubedsm replay`\)"),
    ],
)
def test_what_is_no_configuration_is_told_for_what_it_is(text, what):
    with pytest.raises(DocumentError, match=f"^this is {what}.*, not a configuration of KubeDSM$"):
        parse_yaml(text, CONFIGURATION)


def test_of_a_config_map_the_configuration_in_it_is_read(tmp_path):
    path = tmp_path / "cm.yaml"
    head = "apiVersion: v1\nkind: ConfigMap\n"
    path.write_text(
        f"apiVersion: v1\nkind: Namespace\n---\n{head}data:\n  config.yaml: 'batch: {{size: 7}}'\n"
    )
    assert load_file(path).batch.size == 7
    path.write_text(f"{head}data:\n  config.yaml: 'batch: {{size: x}}'\n")
    with pytest.raises(DocumentError, match=f"^{path}, config.yaml: batch.size: 'x'"):
        load_file(path)
    path.write_text(f"{head}data: {{other: ''}}\n")
    with pytest.raises(DocumentError, match=f"^{path}: a ConfigMap without a text of the key conf"):
        load_file(path)
    path.write_text("# of a ConfigMap\n")
    assert load_file(path) == Configuration()
