"""An emulated API server without HTTP, with a namespace `shop`."""

import pytest

from kubedsm_lab.emulator.http.routes import Routes
from support.api_cases import api_server
from support.fixed_clock import FixedClock


@pytest.fixture
def clock():
    return FixedClock()


@pytest.fixture
def api(clock):
    return api_server(clock)


@pytest.fixture
def routes(api):
    return Routes(api)
