"""Clouds of many nodes: kube-scheduler and KubeDSM that look at some of them only."""

from rich.progress import Progress

from kubedsm.cli.console import print_json
from kubedsm.terminal.console import Console
from kubedsm.terminal.echo import echo


def nodes(nodes: tuple[int, ...], pods: int, rounds: int, output: str) -> None:
    from kubedsm_lab.bench.nodes.contenders import contenders  # noqa: PLC0415  of no use elsewhere
    from kubedsm_lab.bench.nodes.run import run  # noqa: PLC0415
    from kubedsm_lab.bench.nodes.tables import tables  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as progress:
        at = progress.add_task("decisions", total=len(nodes) * rounds * len(contenders()))
        result = run(nodes, pods, rounds, lambda: progress.advance(at))
    if output == "json":
        print_json(result.as_json())
    else:
        echo(tables(result), nl=False)
