"""An emulated API server without HTTP."""

import random

import pytest

from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.http.routes import Routes
from support.fixed_clock import FixedClock


@pytest.fixture
def api() -> ApiServer:
    return ApiServer(FixedClock(), random.Random(0))


@pytest.fixture
def routes(api: ApiServer) -> Routes:
    return Routes(api)
