import pytest

from kubedsm.solvers import process
from support.processes import PATIENCE


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """On a busy machine a library takes as long to load as it takes."""
    monkeypatch.setattr(process, "LOADING", PATIENCE)
