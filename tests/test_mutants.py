"""The seeded bugs are bugs of the code as it is; `python tests/mutants` shows who notices them."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
#: fewer of them say too little
ENOUGH = 80

STALE = """Two is three.
Noticed by: tests
--- a/code.py
+++ b/code.py
@@ -1 +1 @@
-two = 2
+two = 3
"""


def checked(directory):
    return subprocess.run(
        [sys.executable, directory, "--check"], capture_output=True, text=True, check=False
    )


def test_every_mutant_applies():
    done = checked(TESTS / "mutants")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) >= ENOUGH


def test_one_that_does_not_apply_is_named(tmp_path):
    mutants = tmp_path / "tests" / "mutants"
    mutants.mkdir(parents=True)
    shutil.copy(TESTS / "mutants" / "__main__.py", mutants)
    (mutants / "room").mkdir()
    (mutants / "room" / "stale.patch").write_text(STALE)
    (tmp_path / "code.py").write_text("two = 2\n")
    assert checked(mutants).returncode == 0
    (tmp_path / "code.py").write_text("two = 1 + 1\n")
    done = checked(mutants)
    assert done.stderr == "Error: room/stale: code.py has its lines 0 times: two = 2\n"
    assert done.returncode == 1


#: of the mutants of `least`, one that no input can tell is there: `<` for `<=`
SOURCE = """def least(one, other):
    return one if one <= other else other
"""
TEST = """from plans.least import least


def test_least():
    assert least(1, 2) == least(2, 1) == 1
"""


def test_drawn_mutants_are_judged_by_tests_that_run_them_and_survivors_are_shown(tmp_path):
    pytest.importorskip("mutmut")
    files = {"plans/least.py": SOURCE, "plans/__init__.py": "", "tests/plans/test_it.py": TEST}
    files["pyproject.toml"] = '[tool.mutmut]\nsource_paths = ["plans"]\n'
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for name in ("mutants/__main__.py", "support/__init__.py", "support/drawn_mutants.py"):
        (tmp_path / "tests" / name).parent.mkdir(exist_ok=True)
        shutil.copy(TESTS / name, tmp_path / "tests" / name)
    command = (tmp_path / "tests" / "mutants", "--drawn", "9", "--package", "plans")
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 1, done.stderr
    shown, _, score = done.stdout.partition("plans  ")
    assert shown.count("SURVIVED") == 1
    assert "-    return one if one <= other else other\n+    return one if one < other" in shown
    assert score.strip().startswith("2 of 3 killed: 66.7% (95 % interval 21% to 94%)")
