"""Container images on nodes: images of a pod that a node lacks, and the expected time to pull them.

Nodes report their images in status.images. A node that reports none, or as many as a kubelet lists
at most, may have any image.
"""

from collections.abc import Mapping

from kubedsm.model.model import Node, NodeName, Pod
from kubedsm.model.node_index import NodeIndex

#: nodeStatusMaxImages, the kubelet's default
MOST_LISTED = 50
#: bytes per second, until a pull to the node was observed
USUAL_SPEED = 6_000_000.0
#: bytes below which a pull shows little of the speed
LEAST_OBSERVED = 23_000_000
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
