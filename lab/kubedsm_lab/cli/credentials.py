"""Credentials of emulated clusters: tokens and kubeconfigs, readable only by the owner."""

import contextlib
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

import orjson

from kubedsm.cli.inputs import read_token, warn_if_others_may_read
from kubedsm.terminal.whole_files import write_whole
from kubedsm_lab.emulator.http.server import kubeconfig

#: mode of a new file, from the first moment on
_PRIVATE = 0o600


def make_token() -> str:
    """Return a random bearer token, cryptographically secure."""
    return secrets.token_urlsafe(32)


def ensure_token(path: Path) -> str:
    """Return the bearer token in the file; create the file with a random token if missing.

    Raises DocumentError, OSError.
    """
    if not path.exists():
        write_whole(path, make_token().encode() + b"\n", _PRIVATE)
    return read_token(path)


@contextlib.contextmanager
def written_kubeconfig(
    url: str, token: str | None, path: Path | None, ca: bytes | None = None
) -> Iterator[Path]:
    """Write a kubeconfig for the server and yield its path.

    Without `path` the file is in a temporary directory, which is removed at the end.
    """
    content = orjson.dumps(kubeconfig(url, token, ca), option=orjson.OPT_INDENT_2)
    with contextlib.ExitStack() as stack:
        if path is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kubedsm-"))
            path = Path(folder) / "kubeconfig"
        write_whole(path, content, _PRIVATE)
        if token is not None:
            warn_if_others_may_read(path)
        yield path
