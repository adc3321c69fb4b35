"""Commands run to their end in this process, which has already imported their modules."""

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import pytest

from kubedsm.cli.main import main


def kubedsm(*arguments, entry_point=main):
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    typed = ["kubedsm", *map(str, arguments)]
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", typed)
        with pytest.raises(SystemExit) as ended:
            entry_point()
    said = []
    for stream in (out, err):
        stream.flush()
        said.append(stream.buffer.getvalue().decode())
    return subprocess.CompletedProcess(typed, ended.value.code, *said)
