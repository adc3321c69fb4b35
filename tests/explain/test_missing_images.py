"""Images that the target of a migration lacks, in the explanation of the migration."""

import attrs
import pytest

from kubedsm.explain.migration import describe_pull
from kubedsm.model.images import MOST_LISTED, names_of
from kubedsm.model.model import Tier
from support.placement_instances import node, pod, resources, snapshot

IMAGE = "registry.local:5000/web:2"


def explained(on_source, on_target, image=IMAGE, speeds=()):
    """Return the lines about images of a proposed migration from c1 to e1."""
    nodes = [
        attrs.evolve(node("c1", Tier.CLOUD), images=on_source),
        attrs.evolve(node("e1", Tier.EDGE), images=on_target),
    ]
    web = attrs.evolve(pod("web-0", "web", resources(1, 1), on="c1"), images=(image,))
    shot = attrs.evolve(snapshot(nodes, [web]), pull_speeds=dict(speeds))
    lines = describe_pull(web, "e1", shot)
    return ["".join(getattr(word, "text", word) for word in line) for line in lines]


@pytest.mark.parametrize(
    ("speeds", "about"), [((), "about 38 s"), ((("e1", 2_300_000.0),), "about 100 s")]
)
def test_an_image_that_the_target_lacks(speeds, about):
    found = explained({IMAGE: 230_000_000}, {"other:1": 5}, speeds=speeds)
    assert found == [f"Image {IMAGE} is missing on e1: 230 MB, {about}."]


MANY = {f"image-{number}:1": 5 for number in range(MOST_LISTED)}


@pytest.mark.parametrize(
    ("on_source", "on_target"),
    [
        ({IMAGE: 230_000_000}, {IMAGE: 230_000_000}),
        ({IMAGE: 230_000_000}, {}),
        ({IMAGE: 230_000_000}, MANY),
        ({"other:1": 5}, {"other:1": 5}),
    ],
    ids=["is there", "target reports none", "target reports as many as it lists", "size unknown"],
)
def test_nothing_is_said_of_images_that_are_there_or_unknown(on_source, on_target):
    assert explained(on_source, on_target) == []


@pytest.mark.parametrize(
    ("image", "also"),
    [
        ("nginx:1", "docker.io/library/nginx:1"),
        ("rancher/pause:3", "docker.io/rancher/pause:3"),
        ("ghcr.io/team/web:1", None),
        ("localhost/web:1", None),
        ("registry:5000/web:1", None),
    ],
)
def test_names_under_which_a_container_runtime_reports_an_image(image, also):
    assert names_of(image) == ((image,) if also is None else (image, also))
    if also:
        assert explained({also: 230_000_000}, {also: 230_000_000, "other:1": 5}, image) == []
        assert len(explained({also: 230_000_000}, {"other:1": 5}, image)) == 1
