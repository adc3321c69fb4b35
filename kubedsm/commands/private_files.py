"""Files with secrets in them: what we create, only its owner can read."""

import contextlib
import re
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import orjson

from kubedsm.commands.console import remark
from kubedsm.configuration.documents import DocumentError
from kubedsm.emulator.http.server import kubeconfig
from loadgen.whole_files import write_whole

#: of a new file: only its owner can read it, from the first moment on
PRIVATE = 0o600
#: what can be sent in a header as it is
_TOKEN = re.compile(rb"[!-~]+")


def new_token() -> str:
    """One that nobody guesses."""
    return secrets.token_urlsafe(32)


def token_in(path: Path) -> str:
    """The token that the file holds; if there is no such file, it is made with a random one.

    Raises DocumentError, OSError.
    """
    if not path.exists():
        write_whole(path, new_token().encode() + b"\n", PRIVATE)
    return known_token(path)


def known_token(path: Path) -> str:
    """The token that the file holds. Raises DocumentError, OSError."""
    token = path.read_bytes().strip()
    if not _TOKEN.fullmatch(token):
        reason = "not a token: one line of printable characters, no spaces"
        raise DocumentError(reason, source=str(path))
    warn_if_others_may_read(path)
    return token.decode()


def warn_if_others_may_read(path: Path) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        remark(f"{path} holds a token and is open to others (mode {mode:04o}); chmod 600 {path}")


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
