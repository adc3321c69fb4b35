"""Files with secrets in them: what we create, only its owner can read."""

import re
import secrets
import stat
from pathlib import Path

from kubedsm.commands.console import remark
from kubedsm.config.documents import DocumentError
from kubedsm.terminal.whole_files import write_whole

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
