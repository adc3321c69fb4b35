"""A tenant's annotations, read; what is not understood costs only itself."""

import re
from functools import lru_cache

from kubedsm.config.documents import shown
from kubedsm.config.services import MODES, MOST_REQUESTS, Mode
from kubedsm.model.model import (
    MIGRATION_ANNOTATION,
    QOS_ANNOTATION,
    RATE_ANNOTATION,
    Wishes,
)

_SHARE = re.compile(r"(?:0|1|0?\.[0-9]{1,9}|0\.|1\.0{0,9})", re.ASCII)
_RATE = re.compile(r"[0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9}", re.ASCII)
_MODES: dict[str, Mode] = {mode: mode for mode in MODES}
#: characters; no value that means anything has more
_MOST = 100


def wishes_of(qos: str | None, migration: str | None, rate: str | None) -> Wishes | None:
    """What the annotations of these values ask for; None if there are none."""
    if qos is None and migration is None and rate is None:
        return None
    return _read(qos and qos[:_MOST], migration and migration[:_MOST], rate and rate[:_MOST])


@lru_cache(maxsize=1024)
def _read(qos: str | None, migration: str | None, rate: str | None) -> Wishes:
    ignored = []
    share = None
    if qos is not None and _SHARE.fullmatch(qos.strip()):
        share = float(qos)
    elif qos is not None:
        ignored.append(f"{QOS_ANNOTATION}: {shown(qos)} is not a number between 0 and 1")
    mode = _MODES.get((migration or "").strip())
    if migration is not None and not mode:
        known = f"{', '.join(MODES[:-1])} or {MODES[-1]}"
        ignored.append(f"{MIGRATION_ANNOTATION}: {shown(migration)} is not {known}")
    declared = float(rate) if rate is not None and _RATE.fullmatch(rate.strip()) else None
    if rate is not None and (declared is None or declared > MOST_REQUESTS):
        declared = None
        allowed = f"a number of requests/s between 0 and {MOST_REQUESTS}"
        ignored.append(f"{RATE_ANNOTATION}: {shown(rate)} is not {allowed}")
    return Wishes(share, mode or "", tuple(ignored), declared)
