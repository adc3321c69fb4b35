"""Which objects of one kind exist, and in which state each was last seen.

Rules. A uid lives once: what was deleted never comes back, and a name with another uid is another
object, whose predecessor is gone. An object's resourceVersion never goes back.
"""

from collections.abc import Iterator, Mapping

from kubedsm.kube.wire.decoding import Identity
from kubedsm.model.resource_versions import is_older

#: how many deleted uids are remembered, against replays
_REMEMBERED = 4096

Key = tuple[str, str]


def _is_news(seen: Identity, known: Identity) -> bool:
    if not known.resource_version:
        return True
    if known.uid == seen.uid and known.resource_version == seen.resource_version:
        return False
    return not is_older(seen.resource_version, known.resource_version)


class KnownObjects:
    def __init__(self) -> None:
        self._known: dict[Key, Identity] = {}
        #: an ordered set
        self._gone: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._known)

    def take(self, seen: Identity) -> tuple[Identity, ...] | None:
        """Take the object as it is now; the one it took the name of, if there was one.

        None for a state of it that we have been told of.
        """
        key = (seen.namespace, seen.name)
        known = self._known.get(key)
        if seen.uid in self._gone or (known is not None and not _is_news(seen, known)):
            return None
        self._known[key] = seen
        if known is None or known.uid == seen.uid:
            return ()
        self._bury(known.uid)
        return (known,)

    def overtook(self, seen: Identity) -> bool:
        """Whether a later state of this very object is known."""
        known = self._known.get((seen.namespace, seen.name))
        return (
            known is not None
            and known.uid == seen.uid
            and is_older(seen.resource_version, known.resource_version)
        )

    def remove(self, seen: Identity) -> Identity | None:
        """The object is gone; what was known under its name until now, unless that is newer."""
        key = (seen.namespace, seen.name)
        known = self._known.get(key)
        buried = seen.uid in self._gone
        self._bury(seen.uid)
        if known is None:
            return None
        if known.uid != seen.uid and (
            # Another uid was deleted under this name. If that was later, ours must be gone too.
            buried or not is_older(known.resource_version, seen.resource_version)
        ):
            return None
        del self._known[key]
        self._bury(known.uid)
        return known

    def keep_only(self, present: Mapping[Key, str]) -> Iterator[Identity]:
        """Forget what is not among these (uid by key; an empty uid fits any), and say what."""
        absent = [
            known
            for key, known in self._known.items()
            if present.get(key) is None or present[key] not in ("", known.uid)
        ]
        for known in absent:
            del self._known[known.namespace, known.name]
            self._bury(known.uid)
            yield known

    def forget_versions(self) -> None:
        """The server's history was rewound: anything it says from now on is news."""
        self._known = {
            key: Identity(known.namespace, known.name, known.uid, "")
            for key, known in self._known.items()
        }
        self._gone.clear()

    def _bury(self, uid: str) -> None:
        if not uid:
            return
        self._gone.pop(uid, None)
        self._gone[uid] = None
        if len(self._gone) > _REMEMBERED:
            del self._gone[next(iter(self._gone))]
