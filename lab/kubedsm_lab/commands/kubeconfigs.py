"""Kubeconfigs of emulated clusters, readable by their owner only."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import orjson

from kubedsm.commands.private_files import PRIVATE, warn_if_others_may_read
from kubedsm.terminal.whole_files import write_whole
from kubedsm_lab.emulator.http.server import kubeconfig


@contextlib.contextmanager
def written_kubeconfig(
    url: str, token: str | None, path: Path | None, ca: bytes | None = None
) -> Iterator[Path]:
    """A kubeconfig for that server: where asked for, or in a folder that goes when we do."""
    content = orjson.dumps(kubeconfig(url, token, ca), option=orjson.OPT_INDENT_2)
    with contextlib.ExitStack() as stack:
        if path is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kubedsm-"))
            path = Path(folder) / "kubeconfig"
        write_whole(path, content, PRIVATE)
        if token is not None:
            warn_if_others_may_read(path)
        yield path
