"""Check of all documentation examples: `tests/first_hour [PAGE...]`.

Runs the README, then every page of docs/, each with commands in a clean clone of the committed
state: executes `sh` blocks in order, and compares shown outputs with actual ones (`pages.py`
describes the marks of a block). The README creates the virtual environment that all pages use; if
only other pages are named, it is created the same way.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import attrs
import click

from support.first_hour.pages import blocks, matches
from support.first_hour.shell import Shell

ROOT = Path(__file__).parents[3]
README = "README.md"
#: lines of what came that are shown where it is not what should have
TAIL = 25


def every_page():
    return [README, *_git("-C", str(ROOT), "ls-files", "docs/*.md", "k3s-lab/*.md").split()]


def _cloned(to):
    _git("clone", "--quiet", str(ROOT), str(to))
    return to


def _git(*arguments):
    git = shutil.which("git") or "git"
    return subprocess.run((git, *arguments), stdout=subprocess.PIPE, text=True, check=True).stdout


@attrs.define
class Follower:
    """Executor of a page's blocks, as their marks say."""

    shell: Shell
    where: Path
    #: by the last block that was run; None if it was not
    came: str | None = None
    stuck: bool = False

    def follow(self, block):
        """Process one block; return what was done, and what is wrong ("" if nothing is)."""
        marks = block.marks
        if block.takes_kubectl and shutil.which("kubectl") is None:
            self.came = None
            return "not run: there is no kubectl on PATH", block.wrong
        wrong = block.wrong or self._prepared(block)
        if wrong:
            return "not run", wrong
        if "not run" in marks:
            return f"not run: {marks['not run']}", ""
        if "output" in marks:
            return self._compared(block)
        if "file" in marks:
            (self.where / marks["file"]).write_text(block.text, encoding="utf-8")
            return f"written to {marks['file']}", ""
        return self._run(block) if block.is_command else ("left as it is", "")

    def _prepared(self, block):
        first = block.marks.get("first")
        return self._trouble(block, self.shell.run(first, block.within)) if first else ""

    def _run(self, block):
        began, text = time.monotonic(), block.marks.get("background")
        if text is None:
            ran = self.shell.run(block.text, block.within)
        else:
            ran = self.shell.start(block.text, text, block.within)
        wrong = self._trouble(block, ran)
        return f"{'ran' if text is None else 'began'}, {time.monotonic() - began:.1f} s", wrong

    def _compared(self, block):
        if self.came is None:
            return "not compared, for nothing was run", ""
        return "compared", "" if matches(block.text, self.came) else "not what came"

    def _trouble(self, block, ran):
        self.came, self.stuck = ran.output, ran.late
        expected = block.marks.get("exit code")
        codes = [str(code) for code, _ in ran.failed]
        if ran.late:
            return "not in its time, and nothing after it"
        if expected is not None and codes != [expected]:
            return f"exit code {', '.join(codes) or '0'} instead of {expected}"
        if expected is None and ran.failed:
            return "; ".join(f"exit code {code}: {command}" for code, command in ran.failed)
        return ""


def _follow(name, work, path):
    """Process a page and report each block; return the number of failures."""
    own, wrongs = work / name.replace("/", "-"), 0
    committed = work / "committed"
    page = list(blocks((committed if committed.exists() else _cloned(committed)) / name))
    where = _cloned(own / "clone") if any(block.runs for block in page) else committed
    with Shell(where, own, path) as shell:
        follower = Follower(shell, where)
        for block in page:
            done, wrong = follower.follow(block)
            said = f"{done}: WRONG: {wrong}" if wrong else done
            click.echo(f"{name}:{block.line} {block.language}: {said}")
            if wrong:
                wrongs += 1
                came = (follower.came or "").splitlines()[-TAIL:]
                click.echo("\n".join(f"    | {line}" for line in came))
            if follower.stuck:
                break
    left = [str(each.relative_to(shell.temporary)) for each in shell.temporary.iterdir()]
    if left:
        click.echo(f"{name}: WRONG: left in the folder for temporary files: {', '.join(left)}")
    return wrongs + bool(left)


@click.command()
@click.argument("names", metavar="[PAGE]...", nargs=-1)
@click.option(
    "--venv",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Environment in which the page's commands are, instead of one that is made.",
)
@click.option("--keep", is_flag=True, help="Leave the clones and all output where they are.")
def follow(names, venv, keep):
    """Check the pages, by default all; exit with 1 if one fails."""
    pages = list(names or every_page())
    work = Path(tempfile.mkdtemp(prefix="first-hour-"))
    wrongs = 0
    try:
        path = venv.absolute() / "bin" if venv else None
        if README in pages:
            wrongs += _follow(README, work, path)
            pages.remove(README)
            path = path or work / README / "clone" / ".venv" / "bin"
        elif path is None:
            path = _installed(work)
        for name in pages:
            wrongs += _follow(name, work, path)
    finally:
        if keep:
            click.echo(f"kept: {work}")
        else:
            shutil.rmtree(work)
    click.echo(f"{wrongs or 'nothing'} wrong")
    sys.exit(bool(wrongs))


def _installed(work):
    venv = work / "venv"
    subprocess.run((sys.executable, "-m", "venv", str(venv)), check=True)
    constraints = ("-c", str(ROOT / "constraints.txt"))
    pip = (str(venv / "bin" / "pip"), "install", "-q", *constraints, str(ROOT))
    subprocess.run(pip, check=True, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    return venv / "bin"


if __name__ == "__main__":
    follow()
