"""An emulated API server without HTTP, with a namespace `shop`."""

import pytest

from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.http.routes import Routes
from support.api_cases import api_server
from support.fixed_clock import FixedClock


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def api(clock: FixedClock) -> ApiServer:
    return api_server(clock)


@pytest.fixture
def routes(api: ApiServer) -> Routes:
    return Routes(api)
