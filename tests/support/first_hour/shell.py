"""Bash process for one page: variables and processes of a block persist for later blocks."""

import contextlib
import os
import select
import signal
import subprocess
import time

import attrs

#: seconds that what still runs at the end may take to stop
GRACE = 10.0
#: between two looks at what a block in the background says
LOOK = 0.05


@attrs.frozen
class Ran:
    output: str
    #: exit codes and commands that did not end with 0
    failed: tuple[tuple[int, str], ...]
    #: not ended, or not begun to say what was waited for, in its time
    late: bool = False


class Shell:
    """Bash process with its own home, temporary and working directories."""

    def __init__(self, where, own, path=None):
        self._own = own
        self.temporary = own / "tmp"
        for folder in (own / "home", self.temporary):
            folder.mkdir(parents=True)
        path_before = f"{path}:" if path is not None else ""
        environment = {
            **os.environ,
            "PATH": f"{path_before}{os.environ['PATH']}",
            "HOME": str(own / "home"),
            "TMPDIR": str(self.temporary),
            "TERM": "dumb",
        }
        for name in ("KUBECONFIG", "VIRTUAL_ENV", "PYTHONPATH"):
            environment.pop(name, None)
        self._read, write = os.pipe()
        self._done = write
        self._bash = subprocess.Popen(
            ("/bin/bash", "--norc", "-o", "pipefail"),
            stdin=subprocess.PIPE,
            text=True,
            cwd=where,
            env=environment,
            pass_fds=(write,),
            start_new_session=True,
        )
        self._count = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._bash.pid, number)
            until = time.monotonic() + GRACE
            while self._anybody() and time.monotonic() < until:
                time.sleep(LOOK)
        self._bash.communicate()
        os.close(self._read)
        os.close(self._done)

    def run(self, script, within):
        """Run a script to its end, or until the time limit."""
        file, output, failed = self._files(script)
        self._say(
            f"trap 'echo \"$? $BASH_COMMAND\" >>{failed}' ERR\n"
            f". {file} >{output} 2>&1 </dev/null\n"
            f"trap - ERR; echo {self._count} >&{self._done}\n"
        )
        late = not self._ended(within)
        codes = (line.partition(" ") for line in failed.read_text().splitlines())
        return Ran(
            output.read_text(errors="replace"),
            tuple((int(code), command) for code, _, command in codes if code.isdecimal()),
            late,
        )

    def start(self, script, text, within):
        """Run a script in the background; return once `text` is in its output."""
        file, output, _ = self._files(script)
        self._say(f". {file} >{output} 2>&1 </dev/null &\n")
        until = time.monotonic() + within
        while text not in (said := output.read_text(errors="replace")):
            if time.monotonic() > until:
                return Ran(said, (), late=True)
            time.sleep(LOOK)
        return Ran(said, ())

    def _files(self, script):
        self._count += 1
        files = tuple(self._own / f"{self._count}.{end}" for end in ("sh", "out", "failed"))
        # What it ends with is told for the command that did, and not for the file once more.
        for file, text in zip(files, (f"{script}\n:\n", "", ""), strict=True):
            file.write_text(text, encoding="utf-8")
        return files[0], files[1], files[2]

    def _say(self, text):
        assert self._bash.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._bash.stdin.write(text)
            self._bash.stdin.flush()

    def _ended(self, within):
        until = time.monotonic() + within
        while self._bash.poll() is None and time.monotonic() < until:
            ready, _, _ = select.select([self._read], [], [], LOOK)
            if ready and os.read(self._read, 100).split()[-1:] == [str(self._count).encode()]:
                return True
        return False

    def _anybody(self):
        self._bash.poll()
        try:
            os.killpg(self._bash.pid, 0)
        except ProcessLookupError:
            return False
        return True
