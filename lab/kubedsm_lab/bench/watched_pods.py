"""Generator of realistic watch lines: a web service's pod, about 4 kB of JSON.

The template is `watched_pod.json`; names, uids, times and addresses vary.
"""

import random
import uuid
from importlib.resources import files
from string import Template

import orjson

_EVENT = Template(files(__package__).joinpath("watched_pod.json").read_text())


def watch_line(rng: random.Random) -> bytes:
    """Return the JSON line of a MODIFIED watch event for a Deployment's running pod."""
    event = _EVENT.substitute(
        name=f"checkout-6d8f7c9b5d-{''.join(rng.choices('bcdfghjklmnpqrstvwxz2456789', k=5))}",
        uid=uuid.UUID(int=rng.getrandbits(128), version=4),
        version=rng.randrange(1_000_000, 9_000_000),
        minute=f"2026-01-01T08:{rng.randrange(60):02}",
        node=f"n{rng.randrange(2, 6)}",
        address=f"10.42.{rng.randrange(4)}.{rng.randrange(2, 250)}",
        container=f"{rng.getrandbits(256):064x}",
    )
    return orjson.dumps(orjson.loads(event))
