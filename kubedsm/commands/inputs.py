"""What commands read: the configuration, and a dump of a cluster."""

from kubedsm.commands.console import remark
from kubedsm.config.documents import DocumentError, content, source_of
from kubedsm.config.settings import Configuration, load_file
from kubedsm.kube.wire import dump as dumps

#: objects of a dump that cannot be read
_MOST_TOLD = 20


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
