"""Mapping of recorded names, uids, hashes and resourceVersions to those of this run.

The mapping is learnt whenever an object of the recording is recognised in this run, and applied to
later requests and expected responses. A recorded value is learnt once; if the two diverge later,
that is a difference.
"""

import re
from typing import Any

import attrs

Object = dict[str, Any]

#: what generated names and hashes are made of: no vowels, so that no words come out
GENERATED = "bcdfghjklmnpqrstvwxz2456789"
_HASH_LABELS = ("pod-template-hash", "controller-revision-hash")
#: what the names of a ReplicaSet's pods are generated from: its Deployment's name and a hash
_OF_REPLICA_SET = re.compile(r"(.+)-([a-z0-9]+)-")


@attrs.define
class Correspondence:
    #: recorded names, uids and hashes → this run's
    words: dict[str, str] = attrs.field(factory=dict)
    versions: dict[str, str] = attrs.field(factory=dict)
    #: recorded uid → creationTimestamp in this run
    created: dict[str, str] = attrs.field(factory=dict)
    #: of all words; None after a new one
    _pattern: re.Pattern[str] | None = attrs.field(default=None, init=False)

    def copy(self) -> "Correspondence":
        return Correspondence(dict(self.words), dict(self.versions), dict(self.created))

    def knows(self, recorded: Object) -> bool:
        return recorded["metadata"]["uid"] in self.words

    def learn(self, recorded: Object, ours: Object) -> None:
        theirs, own = recorded["metadata"], ours["metadata"]
        for label in _HASH_LABELS:
            self.learn_word(theirs.get("labels", {}).get(label), own.get("labels", {}).get(label))
        if "generateName" in theirs:
            self.learn_word(theirs["name"], own["name"])
            # a detached pod has no label with the hash any more
            origin = _OF_REPLICA_SET.fullmatch(theirs["generateName"])
            own_origin = _OF_REPLICA_SET.fullmatch(own.get("generateName", ""))
            if origin and own_origin and origin[1] == own_origin[1]:
                self.learn_word(origin[2], own_origin[2])
        self.learn_word(theirs["uid"], own["uid"])
        owners = zip(
            theirs.get("ownerReferences", ()), own.get("ownerReferences", ()), strict=False
        )
        for their_owner, own_owner in owners:
            self.learn_word(their_owner["uid"], own_owner["uid"])
        self.versions.setdefault(theirs["resourceVersion"], own["resourceVersion"])
        self.created.setdefault(theirs["uid"], own["creationTimestamp"])

    def learn_word(self, recorded: str | None, ours: str | None) -> None:
        if recorded and ours and recorded not in self.words:
            self.words[recorded] = ours
            self._pattern = None

    def translate(self, value: Any) -> Any:
        """Return a recorded JSON value with all known identifiers replaced."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self.translate(item) for item in value]
        if isinstance(value, dict):
            return {self._text(key): self._member(value, key) for key in value}
        return value

    def _member(self, parent: Object, key: str) -> Any:
        if key == "resourceVersion":
            return self.versions.get(parent[key], parent[key])
        if key == "creationTimestamp" and parent.get("uid") in self.created:
            return self.created[parent["uid"]]
        return self.translate(parent[key])

    def _text(self, text: str) -> str:
        if not self.words:
            return text
        if self._pattern is None:
            longest_first = sorted(self.words, key=len, reverse=True)
            words = "|".join(re.escape(word) for word in longest_first)
            self._pattern = re.compile(rf"(?<![a-z0-9])(?:{words})(?![a-z0-9])")
        return self._pattern.sub(lambda m: self.words[m[0]], text)

    def path(self, recorded: str) -> str:
        version = re.compile(r"(?<=resourceVersion=)\d+")
        known = version.sub(lambda m: self.versions.get(m[0], m[0]), recorded)
        return self._text(known)


def pair(
    recorded: list[Object], ours: list[Object], known: Correspondence
) -> list[tuple[Object, Object]]:
    """Match recorded objects with objects of this run, by name or generateName.

    Of several candidates the first is taken. Objects without a match are left out.
    """
    left = {obj["metadata"]["name"]: obj for obj in ours}
    pairs = []
    strangers = []
    for obj in recorded:
        partner = left.pop(known.translate(obj["metadata"]["name"]), None)
        if partner is None:
            strangers.append(obj)
        else:
            pairs.append((obj, partner))
    for exactly in (True, False):
        for obj in list(strangers):
            for name, candidate in left.items():
                if _same_origin(obj, candidate, known, exactly=exactly):
                    pairs.append((obj, left.pop(name)))
                    strangers.remove(obj)
                    break
    return pairs


def _same_origin(recorded: Object, ours: Object, known: Correspondence, *, exactly: bool) -> bool:
    """Return whether both names come from one generateName.

    Hashes not seen before are ignored, unless `exactly`.
    """
    origin = recorded["metadata"].get("generateName")
    own = ours["metadata"].get("generateName")
    if not origin or not own:
        hashed = recorded["metadata"].get("labels", {}).get("pod-template-hash")
        if exactly or not hashed:
            return False
        # a ReplicaSet: its Deployment's name and the hash
        origin, own = recorded["metadata"]["name"], ours["metadata"]["name"]
    if own == known.translate(origin):
        return True
    taken = set(known.words.values())
    stem = re.match(r"(.*?-)[a-z0-9]+-?$", origin)
    own_match = re.match(r"(.*?-)([a-z0-9]+)-?$", own)
    if exactly or not stem or not own_match:
        return False
    return stem[1] == own_match[1] and own_match[2] not in taken
