"""What benchmarks of processes are called with."""

from typing import Any

import click

from kubedsm.cli.options import output
from kubedsm_lab.cli.options import sizes


@click.command("loop")
@click.option("--nodes", type=click.IntRange(1, 100_000), default=1000, help="How many.")
@click.option("--pods", type=click.IntRange(1, 1_000_000), default=10_000, help="That run there.")
@output
def loop(**given: Any) -> None:
    """How long hard bursts hold the event loop up (10 s).

    The longest turn of each part of the scheduler, and the longest of what is done in them.
    """
    from kubedsm_lab.commands.benching import processes

    processes.loop(**given)


@click.command("scale")
@click.option(
    "--nodes", default="100,1000,5000", callback=sizes, help="Of each size, separated by commas."
)
@click.option(
    "--pods", default="1000,10000,50000", callback=sizes, help="Of each size, separated by commas."
)
@click.option("--rounds", type=click.IntRange(1, 1000), default=11, help="Of each pair, in turn.")
@click.option("--suggestions", type=click.IntRange(0, 1000), default=3, help="Rounds of these.")
@click.option(
    "--seconds",
    type=click.FloatRange(0, 100_000),
    default=30.0,
    help="How long pods come and go, and how long it is quiet then; 0 for no `kubedsm run`.",
)
@output
def scale(**given: Any) -> None:
    """What everything costs at each size.

    Decisions and suggestions beside the same on a snapshot of which nothing was kept along,
    reading beside kubernetes_asyncio's typed models. Then `kubedsm run`, beside `kubedsm emulate`:
    200 pod events a second, bursts, suggestions.
    """
    from kubedsm_lab.commands.benching import processes

    processes.scale(**given)


@click.command("idle")
@click.option("--nodes", type=click.IntRange(1, 5000), default=5000, help="How many.")
@click.option("--pods", type=click.IntRange(1, 10_000), default=1000, help="How many.")
@click.option(
    "--seconds", type=click.FloatRange(1, 100_000), default=60.0, help="How long it is watched."
)
@click.option(
    "--heartbeat",
    type=click.FloatRange(1, 100_000),
    default=300.0,
    help="Seconds between two reports of a node; a kubelet without news waits for 300.",
)
@output
def idle(**given: Any) -> None:
    """What `kubedsm run` costs while nothing is to be done.

    It has bound the pods, nodes report their status, and metrics are scraped each 15 seconds.
    The API server is `kubedsm emulate` in a process of its own.
    """
    from kubedsm_lab.commands.benching import processes

    processes.idle(**given)


@click.command("page")
@click.option("--nodes", type=click.IntRange(1, 5000), default=50, help="How many.")
@click.option("--pods", type=click.IntRange(1, 10_000), default=1000, help="How many.")
@click.option("--viewers", type=click.IntRange(1, 200), default=50, help="How many.")
@click.option("--rounds", type=click.IntRange(1, 50), default=3, help="How often.")
@click.option(
    "--seconds", type=click.FloatRange(0.1, 100_000), default=10.0, help="Of each part of a round."
)
@output
def page(**given: Any) -> None:
    """What viewers of the page cost, beside none (2 minutes).

    Pods come and go while nobody views, while many do, and while as many are connected that read
    nothing. The API server is `kubedsm emulate` in a process of its own.
    """
    from kubedsm_lab.commands.benching import processes

    processes.page(**given)


@click.command("start")
@click.option("--rounds", type=click.IntRange(1, 50), default=5, help="How often.")
@output
def start(**given: Any) -> None:
    """The first bind of `kubedsm run`, beside importing it.

    From starting it, while a Deployment waits on the paper's four nodes.
    The API server is `kubedsm emulate` in a process of its own.
    """
    from kubedsm_lab.commands.benching import processes

    processes.start(**given)
