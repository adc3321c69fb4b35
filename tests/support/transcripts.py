"""Recorded exchanges with a real API server, and the mapping of their identifiers to this run's.

The mapping is learnt whenever an object of the recording is recognised in this run, and applied to
later requests and expected responses. A recorded value is learnt once; if the two diverge later,
that is a difference.
"""

import re

import attrs

from support.recorded import API_SERVER, recorded

#: what generated names and hashes are made of: no vowels, so that no words come out
GENERATED = "bcdfghjklmnpqrstvwxz2456789"
_HASH_LABELS = ("pod-template-hash", "controller-revision-hash")
#: what the names of a ReplicaSet's pods are generated from: its Deployment's name and a hash
_OF_REPLICA_SET = re.compile(r"(.+)-([a-z0-9]+)-")
_VERSION = re.compile(r"(?<=resourceVersion=)\d+")


@attrs.frozen
class Exchange:
    #: position in the transcript, from 0; what the tables of the test refer to
    index: int
    scene: str
    note: str
    #: in the recorder's words; empty for the administrator
    asker: str
    method: str
    path: str
    content_type: str
    body: object
    status: int
    #: JSON or text; None for a watch
    response: object
    #: of a watch, in order; None for anything else
    events: list

    def __str__(self):
        return f"#{self.index} {self.method} {self.path} ({self.note or 'no note'})"


#: keys of a record, in the order of the fields
_KEYS = "scene", "note", "as", "method", "path", "contentType", "body", "status", "response"


def load(path=API_SERVER):
    return [
        Exchange(
            index, *(record.get(key, "" if key == "as" else None) for key in (*_KEYS, "watch"))
        )
        for index, record in enumerate(recorded(path))
    ]


def is_list(document):
    return isinstance(document, dict) and isinstance(document.get("items"), list)


def objects_of(document):
    """Return the stored objects in a response: a single one, or the items of a list."""
    if not isinstance(document, dict) or is_list(document):
        return list(document["items"]) if is_list(document) else []
    return [document] if "uid" in document.get("metadata", {}) else []


@attrs.define
class Correspondence:
    #: recorded names, uids and hashes → this run's
    words: dict = attrs.field(factory=dict)
    versions: dict = attrs.field(factory=dict)
    #: recorded uid → creationTimestamp in this run
    created: dict = attrs.field(factory=dict)
    #: of all words; None after a new one
    _pattern: object = attrs.field(default=None, init=False)

    def copy(self):
        return Correspondence(dict(self.words), dict(self.versions), dict(self.created))

    def learn(self, recorded, ours):
        theirs, own = recorded["metadata"], ours["metadata"]
        for label in _HASH_LABELS:
            self.learn_word(*(each.get("labels", {}).get(label) for each in (theirs, own)))
        if "generateName" in theirs:
            self.learn_word(theirs["name"], own["name"])
            # a detached pod has no label with the hash any more
            origin = _OF_REPLICA_SET.fullmatch(theirs["generateName"])
            own_origin = _OF_REPLICA_SET.fullmatch(own.get("generateName", ""))
            if origin and own_origin and origin[1] == own_origin[1]:
                self.learn_word(origin[2], own_origin[2])
        owners = (each.get("ownerReferences", ()) for each in (theirs, own))
        for their, our in ((theirs, own), *zip(*owners, strict=False)):
            self.learn_word(their["uid"], our["uid"])
        self.versions.setdefault(theirs["resourceVersion"], own["resourceVersion"])
        self.created.setdefault(theirs["uid"], own["creationTimestamp"])

    def learn_word(self, recorded, ours):
        if recorded and ours and recorded not in self.words:
            self.words[recorded] = ours
            self._pattern = None

    def translate(self, value):
        """Return a recorded JSON value with all known identifiers replaced."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self.translate(item) for item in value]
        if isinstance(value, dict):
            return {self._text(key): self._member(value, key) for key in value}
        return value

    def _member(self, parent, key):
        if key == "resourceVersion":
            return self.versions.get(parent[key], parent[key])
        if key == "creationTimestamp" and parent.get("uid") in self.created:
            return self.created[parent["uid"]]
        return self.translate(parent[key])

    def _text(self, text):
        if not self.words:
            return text
        if self._pattern is None:
            words = "|".join(map(re.escape, sorted(self.words, key=len, reverse=True)))
            self._pattern = re.compile(rf"(?<![a-z0-9])(?:{words})(?![a-z0-9])")
        return self._pattern.sub(lambda m: self.words[m[0]], text)

    def path(self, recorded):
        return self._text(_VERSION.sub(lambda m: self.versions.get(m[0], m[0]), recorded))


def pair(recorded, ours, known):
    """Match recorded objects with objects of this run, by name or generateName.

    Of several candidates the first is taken. Objects without a match are left out.
    """
    left = {obj["metadata"]["name"]: obj for obj in ours}
    pairs, strangers = [], []
    for obj in recorded:
        partner = left.pop(known.translate(obj["metadata"]["name"]), None)
        if partner is None:
            strangers.append(obj)
        else:
            pairs.append((obj, partner))
    for exactly in (True, False):
        for obj in list(strangers):
            alike = (n for n, own in left.items() if _same_origin(obj, own, known, exactly=exactly))
            if (name := next(alike, None)) is not None:
                pairs.append((obj, left.pop(name)))
                strangers.remove(obj)
    return pairs


def _same_origin(recorded, ours, known, *, exactly):
    """Return whether both names come from one generateName.

    Hashes not seen before are ignored, unless `exactly`.
    """
    origin, own = (each["metadata"].get("generateName") for each in (recorded, ours))
    if not origin or not own:
        if exactly or not recorded["metadata"].get("labels", {}).get("pod-template-hash"):
            return False
        # a ReplicaSet: its Deployment's name and the hash
        origin, own = recorded["metadata"]["name"], ours["metadata"]["name"]
    if own == known.translate(origin):
        return True
    stem, own_match = (re.match(r"(.*?-)([a-z0-9]+)-?$", each) for each in (origin, own))
    if exactly or not stem or not own_match:
        return False
    return stem[1] == own_match[1] and own_match[2] not in known.words.values()
