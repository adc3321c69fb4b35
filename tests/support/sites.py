"""Cluster of two edge sites and a cloud."""

import asyncio
from collections import Counter

from kubedsm_lab.emulator.paper import node
from support.worlds import emulated

#: seconds until a silent node is Unknown; from then until its pods are deleted; until it is steady
GRACE, TOLERATION, SETTLE = 40.0, 300.0, 120.0
NORTH, SOUTH = ("n1", "n2"), ("s1", "s2")


def at_site(name, site, cpu="4"):
    made = node(name, "edge", cpu, "16Gi")
    made["metadata"]["labels"]["kubedsm.io/site"] = site
    return made


def two_sites(*, cloud="40", south="4", **world):
    nodes = [at_site(name, "north") for name in NORTH]
    nodes += [at_site(name, "south", south) for name in SOUTH]
    return emulated(*nodes, node("c1", "cloud", cloud, "80Gi"), **world)


def where(world, app=None):
    """Count pods by the first letter of their node (site or tier); `-` marks terminating pods."""
    return dict(
        Counter(
            pod["spec"].get("nodeName", "?")[0] + "-" * ("deletionTimestamp" in pod["metadata"])
            for pod in world.pods(app)
        )
    )


async def running(world, count):
    await world.until_bound(count, 30)
    await asyncio.sleep(2.0)
