"""Container images on nodes: images of a pod that a node lacks, the expected time to pull them, and
the ImageLocality score of kube-scheduler.

Nodes report their images in status.images. A node that reports none, or as many as a kubelet lists
at most, may have any image.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from kubedsm.model.model import Node, NodeName, Pod
from kubedsm.model.node_index import Ints, NodeIndex

#: nodeStatusMaxImages, the kubelet's default
MOST_LISTED = 50
#: bytes per second, until a pull to the node was observed
USUAL_SPEED = 6_000_000.0
#: bytes below which a pull shows little of the speed
LEAST_OBSERVED = 23_000_000
#: ImageLocality: bytes of present images for the lowest score, and per container for the highest
_SMALL_IMAGE, _LARGE_IMAGE = 23 * 2**20, 1000 * 2**20
_HIGHEST_SCORE = 100
_DEFAULT_REGISTRY, _DEFAULT_OWNER = "docker.io", "library"


def with_tag(image: str) -> str:
    """Return the image's name with the default tag, if it has neither tag nor digest."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def names_of(image: str) -> tuple[str, ...]:
    """Return the names under which nodes may report an image: as given, and with the registry that
    container runtimes add.
    """
    host, slash, _ = image.partition("/")
    if slash and ("." in host or ":" in host or host == "localhost"):
        return (image,)
    path = image if slash else f"{_DEFAULT_OWNER}/{image}"
    return image, f"{_DEFAULT_REGISTRY}/{path}"


def list_missing(pod: Pod, node: Node, nodes: NodeIndex) -> Mapping[str, int]:
    """Return the images of the pod that the node lacks, with their bytes as other nodes report
    them. Images of unknown size are left out.
    """
    listed = sum("@" not in name for name in node.images)
    if not 0 < listed < MOST_LISTED:
        return {}
    missing = {}
    for image in pod.images:
        names = names_of(image)
        size = max(nodes.image_sizes.get(name, 0) for name in names)
        if size and not any(name in node.images for name in names):
            missing[image] = size
    return missing


def estimate_pull(size: int, node: NodeName, speeds: Mapping[NodeName, float]) -> float:
    """Return the seconds to pull `size` bytes to the node, by the speed last observed there."""
    return size / speeds.get(node, USUAL_SPEED)


def image_locality_score(present: Iterable[tuple[int, float]], containers: int) -> int:
    """Return the ImageLocality score of a node, 0..100.

    `present` has, for each image on the node, its bytes and the proportion of nodes with the image,
    which prevents concentration on the first node.
    """
    bytes_there = sum(int(size * share) for size, share in present)
    most = _LARGE_IMAGE * containers
    counted = min(max(bytes_there, _SMALL_IMAGE), most)
    return _HIGHEST_SCORE * (counted - _SMALL_IMAGE) // (most - _SMALL_IMAGE)


def sum_localities(pods: Iterable[Pod], nodes: NodeIndex) -> Ints:
    """Return the sum of the pods' ImageLocality scores on each node."""
    total: Ints = np.zeros(len(nodes), dtype=np.int64)
    for pod in pods:
        if pod.images:
            total += _list_localities(pod.images, nodes)
    return total


def _list_localities(images: tuple[str, ...], nodes: NodeIndex) -> Ints:
    """Return the ImageLocality score of each node; cached until a node changes."""
    known = nodes.localities.get(images)
    if known is None:
        names = [name for image in images for name in names_of(image) if name in nodes.images]
        share = {name: nodes.images[name] / len(nodes) for name in names}
        known = nodes.localities[images] = np.array(
            [
                image_locality_score(
                    [(node.images[name], share[name]) for name in names if name in node.images],
                    len(images),
                )
                for node in nodes.nodes
            ],
            dtype=np.int64,
        )
    return known
