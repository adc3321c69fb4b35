"""Click options shared by laboratory commands, in addition to `kubedsm.cli.options`."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import click


def parse_executor(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Parse the address of a Dask scheduler."""
    if value is None:
        return None
    name, _separator, address = value.partition("=")
    if name != "dask" or "://" not in address:
        raise click.BadParameter(f"{value!r} is not dask=ADDRESS, such as dask=tcp://10.0.0.1:8786")
    return address


cluster_file = click.option(
    "--cluster",
    "cluster_name",
    default="paper",
    help="`paper`, or a file: Node objects, or the short form {nodes: [{name, tier, cpu, ..}]}.",
)
paced = click.option(
    "--paced",
    is_flag=True,
    help="Emulate the latencies of a real control plane: ReplicaSets create pods in slow-start"
    " batches, and watch events arrive 4 to 83 ms late.",
)
processes = click.option(
    "--jobs", type=click.IntRange(1, 1024), show_default="one per processor", help="Processes."
)
executor = click.option(
    "--executor",
    metavar="dask=ADDRESS",
    callback=parse_executor,
    help="Run on the workers of a Dask scheduler instead, such as dask=tcp://10.0.0.1:8786.",
)
report_folder = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for results.json, pictures, tables and a page of all of them.",
)


def list_given(context: click.Context) -> dict[str, str]:
    """Return the options of the command that have been given, by parameter."""
    return {
        parameter.name or "": parameter.opts[0]
        for parameter in context.command.params
        if context.get_parameter_source(parameter.name or "")
        is not click.core.ParameterSource.DEFAULT
    }


def require_libraries(*names: str) -> None:
    """Check that libraries of the lab are installed, before a command begins to work.

    Raises ClickException with the names of the missing libraries.
    """
    missing = ", ".join(name for name in names if find_spec(name) is None)
    if missing:
        raise click.ClickException(f"not installed: {missing}; pip install kubedsm-lab")


def parse_sizes(_: click.Context, __: click.Parameter, value: str) -> tuple[int, ...]:
    """Parse a comma-separated list of positive numbers."""
    counts = value.split(",")
    if not all(count.isascii() and count.isdecimal() and int(count) for count in counts):
        raise click.BadParameter(f"{value!r} is no list of numbers from 1 up, such as 100,1000")
    return tuple(map(int, counts))


def parse_names(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Parse a comma-separated list of names without duplicates."""
    names = () if value is None else tuple(name.strip() for name in value.split(","))
    if not all(names):
        raise click.BadParameter("a name is empty")
    for name in names:
        if names.count(name) > 1:
            raise click.BadParameter(f"{name!r} is given twice")
    return names


@contextmanager
def interrupt_on_sigterm() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C during the block: child processes are then terminated."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
