"""Options of `loadgen serve`."""

from typing import Any

import click

from loadgen.parameters import CORES, DURATION, MEGABYTES, MILLISECONDS, SIZE, URL


@click.command()
@click.option("--host", default="0.0.0.0", show_default=True)  # noqa: S104 - a pod's own address
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 takes any."
)
@click.option("--name", default="loadgen", show_default=True, help="What it answers with.")
@click.option(
    "--service-time",
    type=DURATION,
    default="0s",
    show_default=True,
    help="A request takes a slot for that long, or for as long as its work takes.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Slots: requests that are worked on at once; others wait, first come first served.",
)
@click.option("--cpu", type=MILLISECONDS, default="0s", help="CPU time of a request.")
@click.option(
    "--cpu-limit",
    type=CORES,
    default="0",
    help="Cores that all requests share, as under a CFS quota, such as 500m.  [no limit]",
)
@click.option(
    "--pi-decimals", type=click.IntRange(0, 1_000_000), default=0, help="Worked out for a request."
)
@click.option("--memory", type=MEGABYTES, default="0", help="Held all the time; MB without unit.")
@click.option("--net", type=SIZE, default="0", help="Of each answer; bytes without unit.")
@click.option("--disk", type=SIZE, default="0", help="Written for a request; bytes without unit.")
@click.option(
    "--call",
    "calls",
    multiple=True,
    type=URL,
    help="Another service that is called for each request, all of them at once. May be repeated.",
)
@click.option(
    "--drain",
    type=DURATION,
    default="500ms",
    show_default=True,
    help="After SIGTERM new requests are taken for that long, by those who have not heard of it.",
)
def serve(**given: Any) -> None:
    """Serve requests over HTTP that cost what the options say.

    /metrics is for Prometheus, /healthz and /readyz for a kubelet; every other path does a
    request's work. SIGTERM or Ctrl-C ends it when all that it accepted is answered.
    """
    from loadgen import serving

    serving.serve(**given)
