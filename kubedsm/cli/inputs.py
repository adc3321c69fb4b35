"""Inputs of commands: configurations, dumps of clusters, token files, and time limits."""

import re
import stat
import time
from pathlib import Path

from kubedsm.cli.console import remark
from kubedsm.config.documents import DocumentError, content, source_of
from kubedsm.config.mismatches import list_mismatches
from kubedsm.config.settings import Configuration, load_file
from kubedsm.kube.wire import dump as dumps
from kubedsm.model.deadline import PATIENT_SHARE, URGENT_SHARE, Deadline
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.snapshot import Snapshot

#: unreadable objects reported individually
_MOST_REPORTED = 20
#: bytes permitted in a header
_TOKEN = re.compile(rb"[!-~]+")


def configuration_at(path: str | None) -> Configuration:
    """Load the configuration file, or return the defaults without a file. Raises DocumentError."""
    return load_file(path) if path else Configuration()


def read_dump(path: str, *, decide: bool = True) -> dumps.Dump:
    """Read a dump of cluster objects, and warn about malformed and missing objects.

    decide: the dump must contain nodes, for a decision. Raises DocumentError.
    """
    dump = dumps.read(content(path), source_of(path))
    if decide and dump.lacking:
        raise DocumentError(dump.lacking, source=source_of(path))
    for line in (*dump.remarks, *map(str, dump.malformed[:_MOST_REPORTED])):
        remark(line)
    if more := len(dump.malformed[_MOST_REPORTED:]):
        remark(f"{more} more objects cannot be read")
    return dump


def mirror_of(dump: dumps.Dump, configuration: Configuration) -> ClusterMirror:
    """Construct a cluster mirror containing every object of the dump."""
    mirror = ClusterMirror(configuration.scheduler_name, configuration.tiers)
    for event in dump.events:
        mirror.apply(event)
    return mirror


def snapshot_of(dump: dumps.Dump, configuration: Configuration) -> Snapshot:
    """Construct the cluster snapshot of a dump; warn about configuration names without a match."""
    snapshot = mirror_of(dump, configuration).snapshot()
    for line in list_mismatches(snapshot, configuration):
        remark(line)
    return snapshot


def start_deadline(seconds: float, share: float = PATIENT_SHARE) -> Deadline:
    """Return the deadline of a scheduling decision with a time limit of `seconds`, from now."""
    return Deadline.within(max(seconds, 0.001), time.monotonic, share)


def start_batch_deadline(configuration: Configuration) -> Deadline:
    """Return the deadline for placing one batch of pods, as the scheduler would set now."""
    seconds = max(configuration.batch.budget, configuration.solver.budget)
    return start_deadline(seconds, URGENT_SHARE)


def read_token(path: Path) -> str:
    """Return the bearer token in the file. Raises DocumentError, OSError."""
    token = path.read_bytes().strip()
    if not _TOKEN.fullmatch(token):
        reason = "not a token: one line of printable characters, no spaces"
        raise DocumentError(reason, source=str(path))
    warn_if_others_may_read(path)
    return token.decode()


def warn_if_others_may_read(path: Path) -> None:
    """Warn about a token file that users other than the owner can read."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        remark(
            f"{path} contains a token, and others may read it (mode {mode:04o}); chmod 600 {path}"
        )
