"""Atomic file writes: content is written to a temporary sibling, then renamed.

Concurrent readers, interrupted writers and full disks leave the previous content intact. Every
error message names the target.
"""

import errno
import io
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

#: characters of the target's name in a temporary name: file systems limit the length of names
_LONGEST = 200


@contextmanager
def name_errors(path: Path) -> Iterator[None]:
    """Context manager: convert OS errors to errors that name the file, or the missing directory."""
    try:
        yield
    except OSError as error:
        number, reason = error.errno or errno.EIO, error.strerror or str(error)
        missing = number == errno.ENOENT and not path.parent.exists()
        reason = f"there is no folder {path.parent}" if missing else reason
        raise OSError(number, reason, str(path)) from None


class _TargetFile(io.FileIO):
    """Unbuffered temporary file whose exceptions name the target file."""

    def __init__(self, descriptor: int, path: Path) -> None:
        super().__init__(descriptor, "wb")
        self._path = path

    def write(self, data: Any) -> int:
        with name_errors(self._path):
            return super().write(data)


@contextmanager
def whole_file(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Context manager: yield a temporary file that replaces the target, unless an error occurs.

    Existing files keep their permissions; `mode`, minus the umask, applies to new files. Special
    files, such as /dev/stdout, are written directly. Raises OSError.
    """
    with name_errors(path):
        target = Path(os.path.realpath(path))
        descriptor, aside = _open_aside(target, mode)
    try:
        with io.BufferedWriter(_TargetFile(descriptor, path)) as file:
            yield file
        if aside is not None:
            with name_errors(path):
                aside.replace(target)
    except BaseException:
        if aside is not None:
            with suppress(OSError):
                aside.unlink()
        raise


def _open_aside(target: Path, mode: int) -> tuple[int, Path | None]:
    """Open a temporary file next to the target; return descriptor, and path if different."""
    flags, kept = os.O_WRONLY | os.O_CLOEXEC, None
    if target.exists():
        # Unwritable files are not replaced either.
        there = os.open(target, flags)
        if not target.is_file():
            return there, None
        kept = stat.S_IMODE(os.fstat(there).st_mode)
        os.close(there)
    aside = target.with_name(f".{target.name[:_LONGEST]}.{secrets.token_hex(4)}")
    descriptor = os.open(aside, flags | os.O_CREAT | os.O_EXCL, mode if kept is None else 0o600)
    if kept is not None:
        os.fchmod(descriptor, kept)
    return descriptor, aside


def write_whole(path: Path, content: bytes | str, mode: int = 0o666) -> None:
    """Write a file atomically. Raises OSError."""
    with whole_file(path, mode) as file:
        file.write(content.encode() if isinstance(content, str) else content)
