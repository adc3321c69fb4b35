"""Commands without a configuration file use the configuration of the cluster."""

from kubedsm.cli.cluster import read_configuration
from kubedsm.config.settings import Configuration
from kubedsm.kube.client.port import ObjectName
from kubedsm_lab.emulator.api.resources import CONFIGMAPS, NAMESPACES
from kubedsm_lab.emulator.front import EmulatedFront
from support.rights import ADMIN_TOKEN, Right, install
from support.worlds import CLOUD, emulated


def config_map(world, text):
    made = {"metadata": {"name": "kubedsm"}, "data": {"config.yaml": text}}
    world.api.create(CONFIGMAPS, made, namespace="kubedsm")


async def test_the_configmap_counts_and_without_one_the_defaults(capsys):
    async with emulated(CLOUD) as world:
        front = EmulatedFront(world.cluster.routes, world.clock)
        assert await read_configuration(front, ObjectName()) == Configuration()
        absent = "there is no ConfigMap kubedsm/kubedsm, config.yaml; the defaults apply"
        assert absent in capsys.readouterr().err
        world.api.create(NAMESPACES, {"metadata": {"name": "kubedsm"}})
        config_map(world, "services: {shop/cart: {qos: 0}}")
        assert (await read_configuration(front, ObjectName())).services["shop/cart"].qos == 0
        assert not capsys.readouterr().err


async def test_without_the_right_to_read_it_the_defaults_apply_and_that_is_said(capsys):
    async with emulated(CLOUD, admin_token=ADMIN_TOKEN) as world:
        token = install(world.cluster, Right("Role", "", "configmaps", "get"))
        config_map(world, "services: {shop/cart: {qos: 0}}")
        front = EmulatedFront(world.cluster.routes, world.clock, token=token)
        assert await read_configuration(front, ObjectName()) == Configuration()
    assert "the defaults apply" in capsys.readouterr().err
