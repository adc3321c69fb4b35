"""GitHub workflows: well formed, and their commands exist in this repository."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SHELLCHECK, GIT = shutil.which("shellcheck"), shutil.which("git")
TRIGGERS = {"push", "pull_request", "schedule", "workflow_dispatch"}
#: of a step that runs something, and of one that uses an action
STEP = {"name", "run", "env", "if"}, {"name", "uses", "with", "if"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_is_well_formed_and_runs_what_exists(path):
    given = yaml.safe_load(path.read_text(encoding="utf-8"))
    # YAML 1.1 reads the key `on` as true.
    assert given[True].keys() <= TRIGGERS
    assert given["permissions"]
    for job in given["jobs"].values():
        assert job["timeout-minutes"] <= 60
        names = {f"matrix.{name}" for name in job.get("strategy", {}).get("matrix", {})}
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            assert step.keys() <= STEP["uses" in step]
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"])
            used = set(re.findall(r"\$\{\{ (matrix\.\w+)", str(step)))
            assert used <= names
            for script in re.findall(r"(?<![\w/])(\.ci/[\w-]+)", step.get("run", "")):
                assert (ROOT / script).is_file()


@pytest.mark.skipif(SHELLCHECK is None, reason="there is no shellcheck on PATH")
@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_the_commands_of_a_workflow_pass_shellcheck(path):
    for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
        for step in job["steps"]:
            script = re.sub(r"\$\{\{.*?\}\}", "value", step.get("run", ""))
            subprocess.run(
                [SHELLCHECK, "--shell", "bash", "-"], input=script, text=True, check=True
            )


def test_a_release_has_one_version_everywhere(tmp_path):
    """On a copy: the script of the release workflow leaves no other version of ours."""
    subprocess.run([GIT, "clone", "-q", ROOT, tmp_path / "copy"], check=True, timeout=60)
    script = tmp_path / "copy" / ".ci" / "set-version"
    shutil.copy(ROOT / ".ci" / "set-version", script)
    before = re.search(r'"(.*)"', (ROOT / "kubedsm" / "__init__.py").read_text().splitlines()[-1])
    subprocess.run([script, "7.8.9rc1"], check=True, timeout=60)
    left = subprocess.run(
        [*(GIT, "grep", "-F", before[1], "--"), *("kubedsm", "lab/pyproject.toml", "manifests")],
        cwd=tmp_path / "copy",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert left.stdout == ""
    assert "7.8.9rc1" in (tmp_path / "copy" / "lab" / "pyproject.toml").read_text()
    refused = subprocess.run([script, "v7"], capture_output=True, check=False, timeout=60)
    assert refused.returncode == 2
