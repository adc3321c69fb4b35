"""Files and folders for the output of experiments."""

import errno
import os
import tempfile
from pathlib import Path

from kubedsm.terminal.whole_files import name_errors


def append_whole(path: Path, line: bytes) -> None:
    """Append a line to the file completely, or leave the file unchanged. Raises OSError."""
    with name_errors(path), path.open("ab", buffering=0) as file:
        before = file.tell()
        try:
            left = memoryview(line)
            while left:
                left = left[file.write(left) :]
        except BaseException:
            file.truncate(before)
            raise


def folder_for(path: Path) -> Path:
    """Create an output file's directory if missing, and check write permission. Raises OSError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except (FileExistsError, NotADirectoryError):
        raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
