"""What `kubedsm bench soak` is called with."""

from typing import Any

import click

from kubedsm.cli.options import OneOf, output

ODDITIES = ("absurd", "overlapping", "forged")


@click.command()
@click.option(
    "--minutes", type=click.FloatRange(0.1, 10_000), default=30.0, help="How long it goes on."
)
@click.option(
    "--rate",
    type=click.FloatRange(0.1, 100),
    default=2.0,
    show_default=True,
    help="New Deployments a second.",
)
@click.option(
    "--odd",
    type=OneOf([*ODDITIES, "none"]),
    multiple=True,
    default=list(ODDITIES),
    show_default=True,
    help="In which ways the odd tenant is odd.",
)
@click.option(
    "--odd-pods",
    type=click.IntRange(1, 500),
    default=48,
    show_default=True,
    help="How many pods it makes at once in each way.",
)
@click.option("--seed", type=int, default=0, help="Seed of what is done.")
@click.option(
    "--replicas",
    type=click.IntRange(1, 10),
    default=1,
    show_default=True,
    help="How many `kubedsm run` there are.",
)
@click.option(
    "--kill-every",
    type=click.FloatRange(0, 10_000),
    default=0.0,
    show_default="never",
    help="Seconds from one SIGKILL to the next, of the leader for the most part; now and then it is"
    " paused, too, for longer than its Lease lasts.",
)
@click.option(
    "--cut-every",
    type=click.FloatRange(0, 10_000),
    default=0.0,
    show_default="never",
    help="Seconds until the lines to the API server fail again: reset, stalled, or broken off"
    " halfway through an answer.",
)
@output
def soak(**given: Any) -> None:
    """Many tenants and an odd one: are all others served as usual?

    Tenants come and go over HTTP.
    The odd one asks for absurd amounts, overlapping spread selectors and forged marks. Both the
    API server, `kubedsm emulate`, and `kubedsm run` are processes of their own. With --kill-every
    and --cut-every harm is done to them, but for a while in the beginning and at the end. Exit code
    1 if a promise is broken.
    """
    from kubedsm_lab.commands import soaking

    soaking.soak(**given)
