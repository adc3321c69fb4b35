"""Options to run the tests marked `any_cluster` against a cluster that exists already, and the
emulated cluster of the others.
"""

import os

import pytest

from support.processes import Server

#: lines for the summary: changes of a cluster that is not the tests' own
done = pytest.StashKey[list[str]]()


def pytest_addoption(parser):
    group = parser.getgroup("kubedsm", "any cluster")
    group.addoption(
        "--kubeconfig",
        default=os.environ.get("KUBEDSM_TEST_KUBECONFIG"),
        help="Kubeconfig of an administrator; only tests for any cluster run, on that one. "
        "Default: $KUBEDSM_TEST_KUBECONFIG, else an emulated cluster.",
    )
    group.addoption("--context", help="Context of --kubeconfig. Default: the current one.")
    group.addoption(
        "--pod-image",
        default="registry.k8s.io/pause:3.10",
        help="Image of the test pods, for nodes that cannot pull the default (%(default)s).",
    )


def pytest_configure(config):
    config.stash[done] = []


@pytest.fixture(scope="module")
def server():
    """An emulated cluster in a process of its own, for the tests of one module."""
    with Server() as started:
        yield started


@pytest.fixture(scope="session")
def changes(request):
    """Return the list of changes for the summary."""
    return request.config.stash[done]


def pytest_collection_modifyitems(config, items):
    if config.getoption("--kubeconfig"):
        others = [item for item in items if not item.get_closest_marker("any_cluster")]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


def pytest_terminal_summary(terminalreporter, config):
    if config.getoption("--kubeconfig") and config.stash[done]:
        terminalreporter.section("changes of the cluster, all undone")
        for line in config.stash[done]:
            terminalreporter.line(line)
