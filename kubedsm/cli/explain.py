"""What `kubedsm explain` is called with."""

from typing import Any

import click

from kubedsm.cli.options import (
    config_file,
    kubeconfig_context,
    kubeconfig_file,
    output,
    scheduler_address,
)


@click.command()
@click.argument("pod_name", metavar="[POD]", required=False)
@click.option(
    "--all", "everyone", is_flag=True, help="Every pending pod, each as if it were alone."
)
@click.option(
    "--from",
    "dump_path",
    type=click.Path(allow_dash=True),
    help="What `kubectl get nodes,pods,namespaces,pvc,pv,storageclasses,csinodes -A -o json`"
    " printed; - for standard input.",
    show_default="none: ask the running scheduler",
)
@scheduler_address
@config_file
@kubeconfig_file
@kubeconfig_context
@output
def explain(**given: Any) -> None:
    """Say why a pod fits on each node, or does not.

    POD is NAME or NAMESPACE/NAME. Asked is the running scheduler, which knows what it decided on;
    if there is none, or it knows nothing of the pod, the cluster: the pod's Events, and its nodes
    as they are now. `feasible` is kube-scheduler's verdict; a node that belongs to no tier is told
    apart. Of another scheduler's pod it is said how it opts in. With --all -o json there is one
    object a line.
    """
    from kubedsm.cli import explaining

    explaining.explain(**given)
