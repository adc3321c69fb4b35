"""The first hour of somebody who reads and tries: `tests/first_hour [PAGE...]`.

Follows the README, and then every page of docs/, from top to bottom, each in a clean clone of what
is committed: runs what stands in blocks of `sh`, and compares outputs that are shown with what came
(`pages.py` says how a page marks what is to become of a block). The README makes the virtual
environment that all of them use; pages named alone have it made the same way.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from support.first_hour.pages import Block, blocks, matches
from support.first_hour.shell import Ran, Shell

ROOT = Path(__file__).parents[3]
README = "README.md"
#: seconds that a block may take that does not say how long it takes
WITHIN = 60.0
#: lines of what came that are shown where it is not what should have
TAIL = 25


def every_page() -> list[str]:
    return [README, *_git("-C", str(ROOT), "ls-files", "docs/*.md", "k3s-lab/*.md").split()]


def _cloned(to: Path) -> Path:
    _git("clone", "--quiet", str(ROOT), str(to))
    return to


def _git(*arguments: str) -> str:
    git = shutil.which("git") or "git"
    return subprocess.run((git, *arguments), stdout=subprocess.PIPE, text=True, check=True).stdout


LATE = "not in its time, and nothing after it"


def _trouble(block: Block, ran: Ran) -> str:
    """What is wrong with it; empty if nothing is."""
    expected = block.marks.get("exit code")
    codes = [str(code) for code, _ in ran.failed]
    if ran.late:
        return LATE
    if expected is not None and codes != [expected]:
        return f"exit code {', '.join(codes) or '0'} instead of {expected}"
    if expected is None and ran.failed:
        return "; ".join(f"exit code {code}: {command}" for code, command in ran.failed)
    return ""


def _followed(shell: Shell, where: Path, page: Sequence[Block]) -> Iterator[tuple[Block, str, str]]:
    """Each block, what became of it, and what is wrong; what came is shown where it is wrong."""
    came, is_known = "", False
    for block in page:
        marks = block.marks
        within = float(marks.get("within") or WITHIN)
        began = time.monotonic()
        wrong, done = block.wrong, ""
        if block.takes_kubectl and shutil.which("kubectl") is None:
            yield block, "not run: there is no kubectl on PATH", wrong
            is_known = False
            continue
        if first := marks.get("first"):
            wrong = wrong or _trouble(block, prepared := shell.run(first, within))
            came, is_known = prepared.output, True
        if "not run" in marks:
            done = f"not run: {marks['not run']}"
        elif "output" in marks:
            done = "compared" if is_known else "not compared, for it was not run"
            if is_known and not wrong and not matches(block.text, came):
                wrong = "not what came"
        elif "file" in marks:
            (where / marks["file"]).write_text(block.text, encoding="utf-8")
            done = f"written to {marks['file']}"
        elif block.is_command and not wrong:
            text = marks.get("background")
            ran = (
                shell.run(block.text, within)
                if text is None
                else shell.start(block.text, text, within)
            )
            came, is_known, wrong = ran.output, True, _trouble(block, ran)
            done = f"{'ran' if text is None else 'began'}, {time.monotonic() - began:.1f} s"
        if wrong:
            click.echo("\n".join(f"    | {line}" for line in came.splitlines()[-TAIL:]))
        yield block, done or "left as it is", wrong
        if wrong == LATE:
            return


def _follow(name: str, work: Path, path: Path | None) -> int:
    """Say what becomes of each block of a page, and how many are wrong."""
    own = work / name.replace("/", "-")
    where = _cloned(own / "clone")
    wrongs = 0
    with Shell(where, own, path) as shell:
        for block, done, wrong in _followed(shell, where, list(blocks(where / name))):
            wrongs += bool(wrong)
            said = f"{done}: WRONG: {wrong}" if wrong else done
            click.echo(f"{name}:{block.line} {block.language}: {said}")
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
def follow(names: tuple[str, ...], venv: Path | None, keep: bool) -> None:
    """Follow the pages, by default all: exit code 1 if one of them does not hold."""
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


def _installed(work: Path) -> Path:
    venv = work / "venv"
    subprocess.run((sys.executable, "-m", "venv", str(venv)), check=True)
    pip = (str(venv / "bin" / "pip"), "install", "-q", str(ROOT))
    subprocess.run(pip, check=True, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    return venv / "bin"


if __name__ == "__main__":
    follow()
