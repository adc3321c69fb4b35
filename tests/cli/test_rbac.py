"""`kubedsm rbac`: what it prints is what the manifests give, and says what each right is for."""

import json
import re

import click
import pytest
import yaml
from click.testing import CliRunner

from kubedsm.cli.main import commands
from kubedsm.cli.options import read_page_options
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
    path = tmp_path / "config.yaml"

    def needed(text):
        path.write_text(text)
        return rights("--config", path)

    eviction, creation = (("ClusterRole", "create", of) for of in ("pods/eviction", "pods"))
    assert eviction in needed("{suggester: {mode: off}, optimiser: {mode: apply}}")
    assert eviction not in needed("suggester: {mode: 'off'}")
    assert eviction in needed("{suggester: {mode: 'off'}, preemption: enabled}")
    assert needed("suggester: {mode: apply}") == rights()
    assert creation not in rights()
    pulling = needed("{suggester: {mode: apply}, preemption: enabled, migration: {prePull: true}}")
    assert pulling - rights() == {creation}


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
    named = {
        names for _, _, kind, *names in map(list, rights("--name", "other")) for names in names
    }
    assert named == {"other", "other-approvals", "other-migrations"}


def test_a_feature_can_be_left_out():
    everything = len(rights())
    printed = [feature for feature in FEATURES if feature.by_default]
    for feature in (f for f in printed if f.name != "placing"):
        others = {r for f in printed if f is not feature for r in f.rights}
        lost = len(set(feature.rights) - others)
        assert everything - len(rights("--without", feature.name)) == lost


def test_json_and_the_table_have_every_feature_with_its_rights():
    features = json.loads(said("-o", "json"))["features"]
    printed = [feature.name for feature in FEATURES if feature.by_default]
    assert [feature["name"] for feature in features] == printed
    for feature in features:
        assert feature["does"]
        assert all({"verbs", "apiGroup", "resources", "scope"} == set(r) for r in feature["rights"])
    scopes = {
        r: right["scope"] for f in features for right in f["rights"] for r in right["resources"]
    }
    assert (scopes["nodes"], scopes["leases"]) == ("cluster", "namespace")
    table = said()
    assert all(name in table for name in printed)


def all_commands(command, path):
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(None):
            yield from all_commands(command.get_command(None, name), f"{path} {name}")


COMMANDS = dict(all_commands(commands, "kubedsm"))


def help_of(path):
    context, names = None, path.split()
    for depth, name in enumerate(names, 1):
        command = COMMANDS[" ".join(names[:depth])]
        context = click.Context(command, info_name=name, parent=context, **command.context_settings)
    return command.get_help(context)


def records(path):
    """Each option with what its help says."""
    context = click.Context(commands, **commands.context_settings)
    inner = click.Context(COMMANDS[path], parent=context)
    for option in COMMANDS[path].params:
        if isinstance(option, click.Option):
            yield option, option.get_help_record(inner)[1]


def test_every_option_says_what_it_does_and_run_names_every_default():
    said = [(option, text) for path in COMMANDS for option, text in records(path)]
    assert [option.opts for option, _ in said if not option.help] == []
    run = records("kubedsm run")
    assert [o.opts for o, text in run if not o.is_flag and "[default: " not in text] == []


@pytest.mark.parametrize("path", [p for p, c in COMMANDS.items() if isinstance(c, click.Group)])
def test_no_command_is_summed_up_by_half_a_sentence(path):
    listed = help_of(path).partition("Show this message and exit.")[2]
    rows = re.findall("^  [a-z-]+  +[A-Z].*[.?]$", listed, re.MULTILINE)
    assert len(rows) == len(COMMANDS[path].list_commands(None))
    assert "..." not in listed


def viewing(page=False, address=None, token_file=None, hosts=(), name="", history=None):
    return read_page_options(page, address, token_file, hosts, name, history)


def test_no_page_unless_asked_for_and_on_loopback_without_a_token():
    assert viewing() is None
    shown = viewing(page=True, hosts=("kubedsm.example",))
    assert (shown.address, shown.access.token) == (None, None)
    assert shown.access.host_is_known("kubedsm.example")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_another_port_of_loopback_needs_no_token(host):
    assert viewing(address=(host, 80)).address == (host, 80)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.7", "kubedsm.example"])  # noqa: S104
def test_beyond_loopback_it_needs_a_token(host, tmp_path):
    with pytest.raises(click.UsageError, match="beyond loopback needs --page-token-file"):
        viewing(page=True, address=(host, 80))
    path = tmp_path / "token"
    path.write_text("secret")
    assert viewing(address=(host, 80), token_file=path).access.token.holds("secret")
