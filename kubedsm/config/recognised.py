"""What a document is that was given where another was wanted."""

from collections.abc import Iterable, Mapping
from typing import Any

from kubedsm.config.documents import SHOWN, DocumentError

CONFIGURATION = "a configuration of KubeDSM"
DUMP = "a dump of a cluster"
CLUSTER = "a file of nodes"
SERVICES = "a file of services"
SCENARIO = "a load scenario"
KUBECONFIG = "a kubeconfig"
#: which option takes it
_FOR = {
    CONFIGURATION: " (for --config)",
    DUMP: " (for --from)",
    CLUSTER: " (for --cluster)",
    SERVICES: " (for --services)",
    SCENARIO: " (for `kubedsm replay`)",
    KUBECONFIG: " (for --kubeconfig)",
}
#: keys that a document has of which nothing else says what it is
_LISTS = {"items": DUMP, "nodes": CLUSTER, "services": SERVICES, "apis": SCENARIO}
_SECTIONS = ("services", "suggester", "migration", "batch", "objective", "tiers", "optimiser")


def what_it_is(said: Any) -> str:
    """Nothing if that is not known."""
    if not isinstance(said, Mapping):
        return ""
    kind = said.get("kind")
    if kind == "KubeDSMConfiguration":
        return CONFIGURATION
    if "clusters" in said and "contexts" in said:
        return KUBECONFIG
    of_kubernetes = "apiVersion" in said and not str(said["apiVersion"]).startswith("kubedsm.io/")
    if of_kubernetes and isinstance(kind, str) and kind.isalnum() and len(kind) <= SHOWN:
        article = "an" if kind[0] in "AEIO" else "a"
        return DUMP if isinstance(said.get("items"), list) else f"{article} {kind}"
    for key, what in _LISTS.items():
        entries = said.get(key)
        if isinstance(entries, list) and entries and isinstance(entries[0], Mapping):
            return what
    return CONFIGURATION if any(isinstance(said.get(k), Mapping) for k in _SECTIONS) else ""


def mistaken(said: Any, wanted: str, also: Iterable[str] = ()) -> str:
    """What is wrong if the document is known to be something else; nothing if not."""
    found = what_it_is(said)
    if not found or found == wanted or found in also:
        return ""
    return f"this is {found}{_FOR.get(found, '')}, not {wanted}"


def refuse_others(said: Any, wanted: str, also: Iterable[str] = ()) -> None:
    """Raises DocumentError if the document is known to be something else."""
    if why := mistaken(said, wanted, also):
        raise DocumentError(why)
