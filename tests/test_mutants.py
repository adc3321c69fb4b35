"""The seeded bugs are bugs of the code as it is; `python tests/mutants` shows who notices them."""

import shutil
import subprocess
import sys
from pathlib import Path

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
