"""`kubedsm explain`: every node, why it would take a pod or not, and what was chosen."""

from collections.abc import Iterable

import click
from rich.console import Console

from kubedsm import offline
from kubedsm.cluster.dump import Malformed
from kubedsm.commands.console import (
    config_file,
    configuration_at,
    output,
    print_json,
    read_dump,
    remark,
)
from kubedsm.core.model import Pod, Snapshot
from kubedsm.explanation import Explainer, knows_tiers, pending
from kubedsm.explanation_table import explanation_table


@click.command()
@click.argument("pod_name", metavar="[POD]", required=False)
@click.option(
    "--all", "everyone", is_flag=True, help="Every pending pod, each as if it were alone."
)
@click.option(
    "--from",
    "dump_path",
    required=True,
    type=click.Path(allow_dash=True),
    help="What `kubectl get nodes,pods,namespaces,pvc,pv,storageclasses -A -o json` printed;"
    " - for standard input.",
)
@config_file
@output
def explain(
    pod_name: str | None, everyone: bool, dump_path: str, config_path: str | None, output: str
) -> None:
    """Say why a pod fits on each node, or does not.

    POD is NAME or NAMESPACE/NAME. `feasible` is kube-scheduler's verdict; a node that belongs to
    no tier is told apart. With --all -o json there is one object a line.
    """
    if everyone == (pod_name is not None):
        raise click.UsageError("name a pod, or say --all")
    configuration = configuration_at(config_path)
    dump = read_dump(dump_path)
    snapshot = offline.mirror_of(dump, configuration).snapshot()
    pods = pending(snapshot) if pod_name is None else [_named(pod_name, snapshot, dump.malformed)]
    if snapshot.nodes and not knows_tiers(snapshot):
        remark(
            f"no node has a label {' or '.join(configuration.tiers.labels)}:"
            " judged by kube-scheduler's rules alone"
        )
    explainer = Explainer(snapshot, configuration.promise, configuration.objective_function)
    console = Console()
    for pod in pods:
        explanation = explainer.explain(pod)
        if output == "json":
            print_json(explanation.as_json())
        else:
            console.print(explanation_table(explanation))


def _named(name: str, snapshot: Snapshot, malformed: Iterable[Malformed]) -> Pod:
    found = [pod for pod in snapshot.pods.values() if name in (str(pod), pod.name)]
    if len(found) == 1:
        return found[0]
    if found:
        several = ", ".join(sorted(map(str, found)))
        raise click.ClickException(f"several pods are called {name}: {several}")
    unreadable = [
        m for m in malformed if m.kind == "Pod" and name in (m.name, m.name.partition("/")[2])
    ]
    raise click.ClickException(
        f"pod {name} cannot be read: {unreadable[0]}" if unreadable else f"there is no pod {name}"
    )
