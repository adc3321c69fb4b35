"""What `kubedsm rbac` is called with."""

from typing import Any

import click

from kubedsm.commands.options import OneOf
from kubedsm.kube.calls.permissions import FEATURES, PLACING


@click.command()
@click.option(
    "--config",
    "config_path",
    type=click.Path(dir_okay=False),
    show_default="none: all features",
    help="Only the features that this configuration uses.",
)
@click.option(
    "--without",
    type=OneOf([feature.name for feature in FEATURES if feature is not PLACING]),
    multiple=True,
    show_default="none",
    help="Leave a feature out; may be repeated.",
)
@click.option("--namespace", default="kubedsm", help="Where the scheduler runs.")
@click.option(
    "--name",
    default="kubedsm",
    help="Of its ServiceAccount, its ConfigMap, its Lease, and of the roles printed.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    help="Output format; yaml is for `kubectl apply -f -`.",
)
def rbac(**given: Any) -> None:
    """Print the rights each feature needs, or roles that give them.

    The roles, -o yaml, are bound to the scheduler's ServiceAccount.
    """
    from kubedsm.commands import rbac

    rbac.rbac(**given)
