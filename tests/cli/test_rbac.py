"""`kubedsm rbac`: what it prints is what the manifests give, and says what each right is for."""

import json

import yaml
from click.testing import CliRunner

from kubedsm.cli.rbac import rbac
from kubedsm.kube.calls.permissions import FEATURES
from support.manifests import BASE, MANIFESTS

SUGGEST_ONLY = MANIFESTS / "components" / "suggest-only"


def said(*arguments):
    done = CliRunner().invoke(rbac, list(map(str, arguments)), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def rights(*arguments):
    """(kind of role, verb, resource, names) of each rule that is printed."""
    return {
        (role["kind"], verb, resource, *rule.get("resourceNames", ()))
        for role in yaml.safe_load_all(said("-o", "yaml", *arguments))
        for rule in role.get("rules", ())
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_manifests_have_what_it_prints():
    assert (BASE / "rbac.yaml").read_text(encoding="utf-8") == said("-o", "yaml")
    printed = said("-o", "yaml", "--config", SUGGEST_ONLY / "config.yaml")
    given = (SUGGEST_ONLY / "rbac.yaml").read_text(encoding="utf-8")
    assert printed.partition("---\n")[0] == given
    assert "eviction" not in given


def test_a_configuration_needs_what_it_uses(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("{suggester: {mode: off}, optimiser: {mode: apply}}")
    assert ("ClusterRole", "create", "pods/eviction") in rights("--config", config)
    path = tmp_path / "config.yaml"
    eviction = ("ClusterRole", "create", "pods/eviction")
    path.write_text("suggester: {mode: 'off'}")
    assert eviction not in rights("--config", path)
    path.write_text("{suggester: {mode: 'off'}, preemption: enabled}")
    assert eviction in rights("--config", path)
    path.write_text("suggester: {mode: apply}")
    assert rights("--config", path) == rights()


def test_roles_are_bound_to_the_account_of_that_name_and_namespace():
    printed = yaml.safe_load_all(said("-o", "yaml", "--name", "other", "--namespace", "edge"))
    objects = {given["kind"]: given for given in printed}
    assert set(objects) == {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    account = {"kind": "ServiceAccount", "name": "other", "namespace": "edge"}
    for kind, given in objects.items():
        assert given["metadata"]["name"] == "other"
        assert given["metadata"].get("namespace") == ("edge" if kind.startswith("Role") else None)
        if kind.endswith("Binding"):
            assert given["subjects"] == [account]
            assert given["roleRef"]["kind"] == kind.removesuffix("Binding")
            assert given["roleRef"]["name"] == "other"
    assert {names for *_, names in rights("--name", "other") if names == "other"}


def test_a_feature_can_be_left_out():
    everything = len(rights())
    for feature in (f for f in FEATURES if f.name != "placing"):
        others = {r for f in FEATURES if f is not feature for r in f.rights}
        lost = len(set(feature.rights) - others)
        assert everything - len(rights("--without", feature.name)) == lost


def test_json_and_the_table_have_every_feature_with_its_rights():
    features = json.loads(said("-o", "json"))["features"]
    assert [feature["name"] for feature in features] == [feature.name for feature in FEATURES]
    for feature in features:
        assert feature["does"]
        assert all({"verbs", "apiGroup", "resources", "scope"} == set(r) for r in feature["rights"])
    scopes = {
        r: right["scope"] for f in features for right in f["rights"] for r in right["resources"]
    }
    assert (scopes["nodes"], scopes["leases"]) == ("cluster", "namespace")
    table = said()
    assert all(feature.name in table for feature in FEATURES)
