"""What commands read: the configuration, the kubeconfig, a dump of a cluster; and their options."""

from pathlib import Path

import click
from yarl import URL

from kubedsm.cluster.wire import dump as dumps
from kubedsm.commands.console import remark
from kubedsm.configuration.documents import DocumentError, content, source_of
from kubedsm.configuration.settings import Configuration, load_file
from kubedsm.runtime.config_map import ConfigMapName
from kubedsm.why.server import LOOPBACK, PORT

#: objects of a dump that cannot be read
_MOST_TOLD = 20

config_file = click.option(
    "--config",
    "config_path",
    type=click.Path(dir_okay=False),
    show_default="none: every key has its own default",
    help="Configuration file (docs/configuration.md).",
)


def _config_map_name(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> ConfigMapName | None:
    if value is None:
        return None
    try:
        return ConfigMapName.read(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


config_map_name = click.option(
    "--configmap",
    "config_map",
    metavar="NAMESPACE/NAME",
    callback=_config_map_name,
    show_default="none",
    help="ConfigMap whose key config.yaml is the configuration.",
)
kubeconfig_file = click.option(
    "--kubeconfig",
    "kubeconfig_path",
    type=click.Path(path_type=Path),
    show_default="$KUBECONFIG, in a pod its service account, else ~/.kube/config",
    help="Kubeconfig file.",
)
kubeconfig_context = click.option(
    "--context", show_default="the current one", help="Context of the kubeconfig."
)


def _address(_context: click.Context, _option: click.Parameter, value: str) -> str:
    try:
        url = URL(value)
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise click.BadParameter(f"{value} is no address such as http://{LOOPBACK}:{PORT}")
    return value


scheduler_address = click.option(
    "--server",
    default=f"http://{LOOPBACK}:{PORT}",
    show_default=True,
    callback=_address,
    help="Where the running scheduler answers: `kubedsm run --diagnostics-port`.",
)


def configuration_at(path: str | None) -> Configuration:
    return load_file(path) if path else Configuration()


def read_dump(path: str, *, decide: bool = True) -> dumps.Dump:
    """Read a dump, and say what is wrong with it or missing in it.

    decide: whether it is to be decided on, so that there must be nodes. Raises DocumentError.
    """
    dump = dumps.read(content(path), source_of(path))
    if decide and dump.lacking:
        raise DocumentError(dump.lacking, source=source_of(path))
    for line in (*dump.remarks, *map(str, dump.malformed[:_MOST_TOLD])):
        remark(line)
    if more := len(dump.malformed[_MOST_TOLD:]):
        remark(f"{more} more objects cannot be read")
    return dump
