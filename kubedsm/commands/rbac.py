"""`kubedsm rbac`: which rights each feature needs, to be read or to be granted."""

from collections.abc import Sequence
from typing import Any

import yaml

from kubedsm.commands.console import print_json
from kubedsm.commands.inputs import configuration_at
from kubedsm.config.settings import Configuration
from kubedsm.kube.calls.permissions import APPROVALS, FEATURES, Feature, Rule, rules
from kubedsm.terminal.console import Console
from kubedsm.terminal.echo import echo
from kubedsm.terminal.fitted_table import table

RBAC = "rbac.authorization.k8s.io"


def rbac(
    config_path: str | None, without: tuple[str, ...], namespace: str, name: str, output: str
) -> None:
    used = _used(configuration_at(config_path)) if config_path else {f.name for f in FEATURES}
    features = [f for f in FEATURES if f.name in used and f.name not in without]
    if output == "json":
        print_json({"features": [_as_json(feature) for feature in features]})
    elif output == "yaml":
        echo(roles(features, name, namespace), nl=False)
    else:
        Console().print(
            table(
                ("feature", "what for", "rights"),
                ((f.name, f.does, "\n".join(map(_said, rules([f])))) for f in features),
            )
        )


def _used(configuration: Configuration) -> set[str]:
    """The names of the features that the configuration uses."""
    still = "apply" not in {configuration.suggester.mode, configuration.packing_mode}
    off = {
        "migrations": still,
        "requests": still,
        "preemption": configuration.preemption != "enabled",
    }
    return {feature.name for feature in FEATURES if not off.get(feature.name, False)}


def _said(rule: Rule) -> str:
    where = " in its namespace" if rule.own else ""
    of = f".{rule.group}" if rule.group else ""
    return "\n".join(f"{' '.join(rule.verbs)} {name}{of}{where}" for name in rule.resources)


def _as_json(feature: Feature) -> dict[str, Any]:
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


def roles(features: Sequence[Feature], name: str, namespace: str) -> str:
    """The roles, bound to the ServiceAccount: YAML documents.

    A comment on each rule names the features that need it.
    """
    documents: list[str] = []
    for kind, own in (("ClusterRole", False), ("Role", True)):
        given = [rule for rule in rules(features) if rule.own is own]
        if not given:
            continue
        metadata = {"name": name, **({"namespace": namespace} if own else {})}
        head = {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata}
        documents.append(_yaml(head) + "rules:\n" + "".join(_rule(rule, name) for rule in given))
        account = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        binding = {
            "apiVersion": f"{RBAC}/v1",
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
            "subjects": [account],
        }
        documents.append(_yaml(binding))
    return "---\n".join(documents)


def _rule(rule: Rule, name: str) -> str:
    names = [name, name + APPROVALS] if "configmaps" in rule.resources else [name]
    given = {
        "apiGroups": [rule.group],
        "resources": list(rule.resources),
        **({"resourceNames": names} if rule.named else {}),
        "verbs": list(rule.verbs),
    }
    return f"# {', '.join(rule.features)}\n" + _yaml([given], default_flow_style=None)


def _yaml(value: object, *, default_flow_style: bool | None = False) -> str:
    text: str = yaml.safe_dump(
        value, default_flow_style=default_flow_style, sort_keys=False, width=100
    )
    return text
