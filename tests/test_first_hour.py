"""What `tests/first_hour` makes of a page, and that no page leaves it in doubt."""

from pathlib import Path

import pytest

from support.first_hour.pages import blocks, matches
from support.first_hour.shell import Shell

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), ROOT / "k3s-lab" / "README.md"]
PAGE = """
1. A list:

   <!-- within: 90 -->
   ```sh
   kubedsm demo
   ```

<!-- first:
one

two
-->
<!-- output -->
```
pods: 3
```

<!-- not run: it takes K3s -->

Words in between.

```sh
kubectl get pods
```
"""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_it_is_clear_what_becomes_of_each_block_of_a_page(page):
    assert [(block.line, block.wrong) for block in blocks(page) if block.wrong] == []


def test_marks_are_of_the_block_right_below(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    listed, output, plain = blocks(page)
    assert (listed.line, listed.text, listed.marks) == (5, "kubedsm demo\n", {"within": "90"})
    assert output.marks == {"first": "one\n\ntwo", "output": ""}
    assert (plain.marks, plain.is_command) == ({}, True)


@pytest.mark.parametrize(
    ("shown", "came", "same"),
    [
        ("pods: 3", "nodes: 4\npods: 3  \n", True),
        ("pods: 3\nnodes: 4", "pods: 3\n\nnodes: 4", False),
        ("pods: 3\n...\ndone", "pods: 3\nand\nmore\ndone", True),
        ("found in ... ms", "found in 3.1 ms", True),
        ("pods: 1", "pods: 13", False),
        ("3", "pods: 3", False),
        ("a.c", "abc", False),
    ],
)
def test_an_output_that_is_shown_is_found_in_what_came(shown, came, same):
    assert matches(shown, came) is same


@pytest.mark.http
def test_a_shell_tells_what_failed_and_keeps_what_was_set(tmp_path):
    with Shell(tmp_path, tmp_path / "own") as shell:
        first = shell.run("export A=1\ncd /\nfalse\nexit_code() { return 3; }; exit_code\n", 60)
        assert first.failed == ((1, "false"), (3, "return 3"))
        assert shell.run("echo $A $PWD", 60).output == "1 /\n"
        assert shell.start("echo ready; exec sleep 600", "ready", 60).output == "ready\n"
        assert shell.start("exec sleep 600", "ready", 0.2).late
        assert shell.run("sleep 600", 0.2).late
