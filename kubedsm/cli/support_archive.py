"""Archive of `kubedsm support-bundle`: what a bug report needs, redacted."""

import io
import sys
import tarfile
from collections.abc import Awaitable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import orjson

from kubedsm.cli.console import remark
from kubedsm.cli.installation import Installation
from kubedsm.cli.installation_report import describe_findings, open_gatherer, run_to_code
from kubedsm.inspection.checks import parts_needed, run_checks
from kubedsm.inspection.gathering import ClusterState, Gatherer
from kubedsm.inspection.overview import PARTS, Scope, summarise
from kubedsm.inspection.redaction import redact_node, redact_pod, redact_text
from kubedsm.kube.client.api_errors import send
from kubedsm.kube.client.port import (
    CORE,
    EVENTS,
    LEASES,
    TIMEOUT,
    ClusterError,
    Request,
    path_of,
)
from kubedsm.terminal.echo import echo
from kubedsm.terminal.whole_files import whole_file

#: last lines of each replica's log
_LINES = 5000
_EVENT = ("eventTime", "type", "reason", "note", "regarding", "deprecatedLastTimestamp")


def write_bundle(installation: Installation, path: Path | None) -> None:
    """Write the archive, and print its name; a part that cannot be read is named in errors.txt."""

    async def act() -> int:
        async with open_gatherer(installation) as gatherer:
            parts = dict.fromkeys((*parts_needed(), *PARTS))
            state = await gatherer.gather(list(parts))
            files = await _Bundle(gatherer).collect(state)
        at = datetime.fromtimestamp(state.now, UTC)
        target = path or Path(f"kubedsm-support-{at:%Y%m%dT%H%M%SZ}.tar.gz")
        with whole_file(target, 0o600) as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
            for name, content in sorted(files.items()):
                entry = tarfile.TarInfo(f"kubedsm-support/{name}")
                entry.size, entry.mtime = len(content), int(state.now)
                archive.addfile(entry, io.BytesIO(content))
        echo(str(target))
        remark("names of nodes, pods, namespaces and labels are in it: read it before you send it")
        return 0

    sys.exit(run_to_code(act))


@attrs.define
class _Bundle:
    """Files of the archive, and the errors of parts that cannot be read."""

    gatherer: Gatherer
    files: dict[str, bytes] = attrs.field(factory=dict)
    errors: dict[str, str] = attrs.field(factory=dict)

    async def collect(self, state: ClusterState) -> dict[str, bytes]:
        """Return the content of each file by its name."""
        self.errors |= state.errors
        self.files["check.json"] = _to_json(describe_findings(run_checks(state)))
        self.files["status.json"] = _to_json(summarise(state, Scope()).as_json())
        if state.scheduler is not None:
            self.files["readyz.txt"] = redact_text(state.scheduler.readiness).encode()
            self.files["metrics.json"] = _to_json(dict(state.scheduler.metrics))
        name = self.gatherer.name
        await self._read("configuration.json", self._read_configuration())
        lease = path_of(LEASES, name.namespace, "leases", name.name)
        await self._read("lease.json", self._get_field(lease, "spec"))
        await self._read("events.json", self._read_events())
        await self._read("cluster.json", self._read_cluster())
        for pod in await self._list_replicas():
            await self._read(f"logs/{pod}.log", self._read_log(pod))
        if self.errors:
            text = "".join(f"{key}: {why}\n" for key, why in self.errors.items())
            self.files["errors.txt"] = text.encode()
        return self.files

    async def _read(self, file: str, content: Awaitable[bytes]) -> None:
        try:
            self.files[file] = await content
        except ClusterError as error:
            self.errors[file] = str(error)

    async def _get(self, path: str, **query: str) -> Any:
        cluster = self.gatherer.cluster
        return orjson.loads(await send(cluster, "GET", path, query=query))

    async def _get_field(self, path: str, field: str) -> bytes:
        return _to_json((await self._get(path)).get(field) or {})

    async def _read_configuration(self) -> bytes:
        name = self.gatherer.name
        path = path_of(CORE, name.namespace, "configmaps", name.name)
        return redact_text((await self._get_field(path, "data")).decode()).encode()

    async def _read_events(self) -> bytes:
        found = await self._get(path_of(EVENTS, self.gatherer.name.namespace, "events"))
        events = [{k: e[k] for k in _EVENT if k in e} for e in found.get("items") or ()]
        return redact_text(_to_json(events).decode()).encode()

    async def _read_cluster(self) -> bytes:
        """Return a dump for `--from`."""
        nodes, pods = await self._get(f"{CORE}/nodes"), await self._get(f"{CORE}/pods")
        items = [redact_node(node) for node in nodes.get("items") or ()]
        items += [redact_pod(pod) for pod in pods.get("items") or ()]
        return _to_json({"apiVersion": "v1", "kind": "List", "items": items})

    async def _list_replicas(self) -> list[str]:
        name = self.gatherer.name
        path = path_of(CORE, name.namespace, "pods")
        label = f"app.kubernetes.io/name={name.name}"
        try:
            found = await self._get(path, labelSelector=label)
        except ClusterError as error:
            self.errors["logs"] = str(error)
            return []
        return [pod["metadata"]["name"] for pod in found.get("items") or ()]

    async def _read_log(self, pod: str) -> bytes:
        path = path_of(CORE, self.gatherer.name.namespace, "pods", pod, "log")
        request = Request("GET", path, {"tailLines": str(_LINES)})
        async with self.gatherer.cluster.stream(request, timeout=TIMEOUT) as lines:
            text = [redact_text(line.decode(errors="replace")) async for line in lines]
        return "".join(f"{line}\n" for line in text).encode()


def _to_json(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n"
