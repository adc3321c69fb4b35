"""The command `kubedsm rbac`: the RBAC rights that each feature needs, as a list or as roles."""

from collections.abc import Sequence
from typing import Any

import click

from kubedsm.cli.options import OneOf, check_namespace, output_or_yaml
from kubedsm.kube.calls.permissions import FEATURES, PLACING, Feature, Rule, rules, unused_features
from kubedsm.kube.client.port import APPROVALS, MIGRATIONS

_GROUP = "rbac.authorization.k8s.io"


@click.command()
@click.option(
    "--config",
    "config_path",
    type=click.Path(dir_okay=False),
    show_default="none: all features but those that are off by default, such as pre-pull",
    help="Only the features that this configuration uses.",
)
@click.option(
    "--without",
    type=OneOf([feature.name for feature in FEATURES if feature is not PLACING]),
    multiple=True,
    show_default="none",
    help="Leave a feature out; may be repeated.",
)
@click.option(
    "--namespace", default="kubedsm", callback=check_namespace, help="Namespace of the scheduler."
)
@click.option(
    "--name",
    default="kubedsm",
    help="Name of its ServiceAccount, ConfigMap and Lease, and of the roles.",
)
@output_or_yaml
def rbac(
    config_path: str | None, without: tuple[str, ...], namespace: str, name: str, output: str
) -> None:
    """Print the rights each feature needs, or roles that grant them.

    -o yaml prints the roles, bound to the scheduler's ServiceAccount, for `kubectl apply -f -`.
    """
    from kubedsm.cli.console import print_json
    from kubedsm.cli.inputs import configuration_at
    from kubedsm.terminal.console import Console
    from kubedsm.terminal.echo import echo
    from kubedsm.terminal.fitted_table import table

    unused = {feature.name for feature in FEATURES if not feature.by_default}
    if config_path:
        unused = unused_features(configuration_at(config_path))
    features = [f for f in FEATURES if f.name not in unused and f.name not in without]
    if output == "json":
        print_json({"features": [_feature_json(feature) for feature in features]})
    elif output == "yaml":
        echo(_write_roles(features, name, namespace), nl=False)
    else:
        rows = ((f.name, f.does, "\n".join(map(_list_rights, rules([f])))) for f in features)
        Console().print(table(("feature", "purpose", "rights"), rows))


def _list_rights(rule: Rule) -> str:
    where = " in its namespace" if rule.own else ""
    of = f".{rule.group}" if rule.group else ""
    return "\n".join(f"{' '.join(rule.verbs)} {name}{of}{where}" for name in rule.resources)


def _feature_json(feature: Feature) -> dict[str, Any]:
    return {
        "name": feature.name,
        "does": feature.does,
        "rights": [
            {
                "verbs": rule.verbs,
                "apiGroup": rule.group,
                "resources": rule.resources,
                "scope": "namespace" if rule.own else "cluster",
            }
            for rule in rules([feature])
        ],
    }


def _write_roles(features: Sequence[Feature], name: str, namespace: str) -> str:
    """Return RBAC roles and bindings as YAML; comments name the features that need each rule."""
    documents: list[str] = []
    for kind, own in (("ClusterRole", False), ("Role", True)):
        granted = [rule for rule in rules(features) if rule.own is own]
        if not granted:
            continue
        metadata = {"name": name, **({"namespace": namespace} if own else {})}
        role = {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": metadata}
        body = "".join(_write_rule(rule, name) for rule in granted)
        documents.append(f"{_to_yaml(role)}rules:\n{body}")
        binding = {
            "apiVersion": f"{_GROUP}/v1",
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": {"apiGroup": _GROUP, "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }
        documents.append(_to_yaml(binding))
    return "---\n".join(documents)


def _write_rule(rule: Rule, name: str) -> str:
    names = [name, name + (APPROVALS if "configmaps" in rule.resources else MIGRATIONS)]
    fields = {
        "apiGroups": [rule.group],
        "resources": list(rule.resources),
        **({"resourceNames": names} if rule.named else {}),
        "verbs": list(rule.verbs),
    }
    return f"# {', '.join(rule.features)}\n" + _to_yaml([fields], default_flow_style=None)


def _to_yaml(value: object, *, default_flow_style: bool | None = False) -> str:
    import yaml

    text: str = yaml.safe_dump(
        value, default_flow_style=default_flow_style, sort_keys=False, width=100
    )
    return text
