"""Arguments of `kubedsm explain`."""

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
@click.argument("names", metavar="[POD | KIND/NAME]", nargs=-1)
@click.option(
    "-n",
    "--namespace",
    metavar="NAMESPACE",
    show_default="any",
    help="Namespace of the pod or workload.",
)
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
    """Explain a pod, node, workload, migration or decision.

    POD is NAME or NAMESPACE/NAME. KIND/NAME is pod/NAME, node/NAME, deployment/NAME,
    statefulset/NAME, job/NAME, migration/ID or decision/NUMBER; NAMESPACE/NAME works there, too.

    The running scheduler explains its decisions. If there is none, or it has no decision about a
    pod, the cluster does: by the pod's Events, and its nodes as they are now. `feasible` is
    kube-scheduler's verdict; a node that belongs to no tier is reported apart. For another
    scheduler's pod the command says how to opt in. With --all -o json there is one object a line.
    """
    from kubedsm.cli import explaining

    explaining.explain(**given)
