"""Requests of benchmarks: a namespace that ends refuses them, a missing right is an error."""

import pytest

from kubedsm.kube.client.port import Forbidden
from kubedsm_lab.bench.api import Api
from kubedsm_lab.emulator.api.resources import NAMESPACES
from kubedsm_lab.emulator.front import EmulatedFront
from support.rights import ADMIN_TOKEN, install
from support.worlds import CLOUD, emulated


async def test_a_missing_right_is_an_error_and_a_namespace_that_ends_is_none():
    async with emulated(CLOUD, admin_token=ADMIN_TOKEN) as world:
        token = install(world.cluster)
        admin, account = (
            Api(EmulatedFront(world.cluster.routes, world.clock, token=each))
            for each in (ADMIN_TOKEN, token)
        )
        kept = {"metadata": {"name": "old", "finalizers": ["example.com/keep"]}}
        world.api.create(NAMESPACES, kept)
        made = {"metadata": {"name": "s"}}
        assert await admin.create("old", "configmaps", made)
        assert not await admin.create("old", "configmaps", made)
        with pytest.raises(Forbidden):
            await account.create("old", "configmaps", made)
        await admin.delete_namespace("old")
        assert not await admin.create("old", "configmaps", {"metadata": {"name": "t"}})
