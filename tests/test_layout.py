"""The order of the tests: what they share is in `support`, and no test module is imported."""

import ast
from pathlib import Path

from support.imports import imported

TESTS = Path(__file__).parent
SHARED = TESTS / "support"
MODULES = sorted(TESTS.rglob("*.py"))


def test_no_test_module_is_imported():
    own = {"", "tests", *(module.stem for module in MODULES if SHARED not in module.parents)}
    assert [(str(m), name) for m in MODULES for name in imported(m) if name in own] == []


def test_whatever_is_no_test_is_in_support():
    others = {m for m in MODULES if not m.name.startswith("test_") and SHARED not in m.parents}
    assert {module.name for module in others} <= {"conftest.py", "__main__.py"}


def test_a_conftest_holds_fixtures_and_hooks_only():
    for conftest in TESTS.rglob("conftest.py"):
        for found in ast.parse(conftest.read_text(encoding="utf-8")).body:
            if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                fixture = any("fixture" in ast.unparse(made) for made in found.decorator_list)
                assert fixture or found.name.startswith("pytest_"), found.name


def test_no_module_is_longer_than_450_lines():
    lengths = {str(m): len(m.read_text(encoding="utf-8").splitlines()) for m in MODULES}
    assert {name: lines for name, lines in lengths.items() if lines > 450} == {}
