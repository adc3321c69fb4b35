"""Files that are there whole, or as they were: each is written aside, then renamed.

Who reads one meanwhile, or is left with it when the disk is full or the writer interrupted, has
what was there before. Every error names the file that was meant. For all that write files, of
loadgen or not: nothing is known here of what is in them.
"""

import errno
import io
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

#: of a name, so that what is put beside it is no longer than a name may be
_LONGEST = 200


@contextmanager
def _of(path: Path) -> Iterator[None]:
    """What goes wrong inside is told of this file, or of the folder that it is to be in."""
    try:
        yield
    except OSError as error:
        number, said = error.errno or errno.EIO, error.strerror or str(error)
        missing = number == errno.ENOENT and not path.parent.exists()
        said = f"there is no folder {path.parent}" if missing else said
        raise OSError(number, said, str(path)) from None


class _Named(io.FileIO):
    """Its errors are told of the file that is meant."""

    def __init__(self, descriptor: int, path: Path) -> None:
        super().__init__(descriptor, "wb")
        self._path = path

    def write(self, data: Any) -> int:
        with _of(self._path):
            return super().write(data)


@contextmanager
def whole_file(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """To be written to; it is there when all is written, and not if an error ends that.

    A file that is there keeps its mode; `mode` is that of a new one, less the umask. What is no
    file, such as /dev/stdout, is written to as it is. Raises OSError.
    """
    with _of(path):
        target = Path(os.path.realpath(path))
        descriptor, aside = _opened(target, mode)
    try:
        with io.BufferedWriter(_Named(descriptor, path)) as file:
            yield file
        if aside is not None:
            with _of(path):
                aside.replace(target)
    except BaseException:
        if aside is not None:
            with suppress(OSError):
                aside.unlink()
        raise


def _opened(target: Path, mode: int) -> tuple[int, Path | None]:
    """What is to be written to, and its path if that is not the target itself."""
    flags, kept = os.O_WRONLY | os.O_CLOEXEC, None
    if target.exists():
        # What may not be written is not replaced either.
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
    """Raises OSError."""
    with whole_file(path, mode) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def append_whole(path: Path, line: bytes) -> None:
    """Add a line to a file in which lines are kept, or leave it as it was. Raises OSError."""
    with _of(path), path.open("ab", buffering=0) as file:
        before = file.tell()
        try:
            left = memoryview(line)
            while left:
                left = left[file.write(left) :]
        except BaseException:
            file.truncate(before)
            raise


def folder_for(path: Path) -> Path:
    """The folder, made if missing, and found to take files before anything is worth writing.

    Raises OSError.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except (FileExistsError, NotADirectoryError):
        raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
