"""The bodies that kubectl 1.32 sends as protobuf, as it sent them, and damaged ones."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubedsm_lab.emulator.http.protobuf import ProtobufError, decode

#: kubectl create namespace shop
NAMESPACE = (
    b"k8s\x00\n\x0f\n\x02v1\x12\tNamespace\x12\x1c\n\x14\n\x04shop\x12\x00\x1a\x00"
    b'"\x00*\x002\x008\x00B\x00\x12\x00\x1a\x02\n\x00\x1a\x00"\x00'
)
#: kubectl create deployment d --image=x --replicas=2 --port=80
DEPLOYMENT = (
    b"k8s\x00\n\x15\n\x07apps/v1\x12\nDeployment\x12\xa7\x01\n\x1b\n\x01d\x12\x00\x1a\x00"
    b'"\x00*\x002\x008\x00B\x00Z\x08\n\x03app\x12\x01d\x12z\x08\x02\x12\n\n\x08\n\x03app\x12\x01d'
    b'\x1ab\n\x1a\n\x00\x12\x00\x1a\x00"\x00*\x002\x008\x00B\x00Z\x08\n\x03app\x12\x01d\x12D\x12&'
    b'\n\x01x\x12\x01x*\x002\n\n\x00\x10\x00\x18P"\x00*\x00B\x00j\x00r\x00\x80\x01\x00\x88\x01\x00'
    b"\x90\x01\x00\xa2\x01\x00\x1a\x002\x00B\x00J\x00R\x00X\x00`\x00h\x00\x82\x01\x00\x8a\x01\x00"
    b'\x9a\x01\x00\xc2\x01\x00"\x02\n\x00(\x008\x00\x1a\x0c\x08\x00\x10\x00\x18\x00 \x00(\x008\x00'
    b'\x1a\x00"\x00'
)


def test_a_deployment():
    read = decode(DEPLOYMENT)
    assert (read["kind"], read["apiVersion"]) == ("Deployment", "apps/v1")
    assert read["spec"] == {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "d"}},
        "template": {
            "metadata": {"labels": {"app": "d"}},
            "spec": {
                "containers": [
                    {
                        "name": "x",
                        "image": "x",
                        "ports": [{"hostPort": 0, "containerPort": 80}],
                        "resources": {},
                    }
                ]
            },
        },
    }


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"k8s\x00",
        NAMESPACE.replace(b"Namespace", b"Nonsense!"),
        NAMESPACE[:-1],
        b"k8s\x00\x0b",
        b"k8s\x00\x08\x01",
        b"k8s\x00" + b"\xff" * 20,
    ],
)
def test_what_cannot_be_read(body):
    with pytest.raises(ProtobufError):
        decode(body)


@given(st.integers(4, len(DEPLOYMENT) - 1), st.binary(min_size=1, max_size=3))
def test_damage_is_noticed_or_harmless(at, damage):
    with contextlib.suppress(ProtobufError):
        decode(DEPLOYMENT[:at] + damage + DEPLOYMENT[at + len(damage) :])
