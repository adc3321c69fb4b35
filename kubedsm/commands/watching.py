"""`kubedsm watch`: what the page of a running scheduler shows, on a terminal."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing
from pathlib import Path

import attrs
import click
from rich.live import Live

from kubedsm.app.assembly import Runtime
from kubedsm.commands.console import log_to, print_json, remark, until_interrupted
from kubedsm.commands.inputs import configuration_at
from kubedsm.commands.on_cluster import synced
from kubedsm.commands.private_files import known_token
from kubedsm.config.documents import DocumentError
from kubedsm.config.settings import KEY, Configuration, load
from kubedsm.dashboard.rows import Snapshot
from kubedsm.dashboard.server.stream import LOOK
from kubedsm.dashboard.state.scene import Scene
from kubedsm.dashboard.terminal.following import Away, follow
from kubedsm.dashboard.terminal.picture import (
    NewsCursor,
    TypedSnapshot,
    news_json,
    news_line,
    render_picture,
)
from kubedsm.kube.calls.explained_cluster import ExplainedCluster
from kubedsm.kube.calls.verbs import get_config_map
from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.kube.client.port import Cluster, ClusterError
from kubedsm.kube.joining import TIMEOUT, greet
from kubedsm.kube.watching.config_map import ConfigMapName
from kubedsm.kube.wire.errors import WireError
from kubedsm.process.clock import Clock, SystemClock
from kubedsm.terminal.console import Console
from kubedsm.terminal.echo import echo

Followed = AsyncGenerator[Snapshot | Away]
#: seconds after which it is drawn again, for how long things take is in it
DRAWN = 1.0


def watch(
    server: str,
    token_path: Path | None,
    kubeconfig_path: Path | None,
    context: str | None,
    config_path: str | None,
    config_map: ConfigMapName,
    output: str,
) -> None:
    by_itself = kubeconfig_path is not None or context is not None
    if config_path is not None and not by_itself:
        raise click.UsageError(
            "--config is about --kubeconfig or --context: a scheduler has its own"
        )
    log_to(level="CRITICAL")
    clock, console = SystemClock(), Console(highlight=False)
    draws = output == "text" and console.is_terminal and not console.is_dumb_terminal

    async def watched(where: str, followed: Followed) -> None:
        if draws:
            await _Picture(where, console, clock).drawn(followed)
        else:
            await _told(followed, where, as_json=output == "json")

    async def of_cluster() -> None:
        given = configuration_at(config_path) if config_path is not None else None
        async with await KubernetesCluster.connect(kubeconfig_path, context) as cluster:
            asked = ExplainedCluster(cluster, cluster.server)
            await greet(asked, timeout=TIMEOUT)
            known = given or await _configuration_in(asked, config_map)
            scene = Scene(clock, knows_targets=known is not None)
            configuration = known or Configuration()
            runtime = Runtime(asked, configuration, clock, random.Random(), listener=scene)
            async with asyncio.TaskGroup() as tasks:
                following = tasks.create_task(runtime.follow())
                await synced(runtime)
                await watched(cluster.server, _looks(runtime, scene, clock))
                following.cancel()

    async def of_scheduler() -> None:
        token = None if token_path is None else known_token(token_path)
        await watched(server, follow(server, token, clock))

    until_interrupted(of_cluster() if by_itself else of_scheduler())


async def _configuration_in(cluster: Cluster, name: ConfigMapName) -> Configuration | None:
    """Read the scheduler's configuration; None, with a remark, if it cannot be read."""
    try:
        found = await get_config_map(cluster, name.namespace, name.name, timeout=TIMEOUT)
        if KEY in found.data:
            return load(found.data[KEY], f"ConfigMap {name}, {KEY}")
        why = f"it has no {KEY}"
    except (ClusterError, WireError, DocumentError) as error:
        why = str(error)
    remark(f"QoS targets are not shown, for ConfigMap {name} cannot be read: {why}; see --config")
    return None


async def _looks(runtime: Runtime, scene: Scene, clock: Clock) -> Followed:
    """What a cluster shows by itself, whenever it is different; nothing is decided here."""
    while True:
        if scene.look(runtime, None, clock.wall()) is not None:
            yield scene.snapshot()
        await clock.sleep(LOOK)


@attrs.define
class _Picture:
    server: str
    console: Console
    clock: Clock
    _seen: TypedSnapshot | None = None
    #: when that was heard, by our clock, and why nothing is heard since
    _heard: float = 0.0
    _away: str = ""

    async def drawn(self, followed: Followed) -> None:
        """Draw what is seen until cancelled; only then is there a picture."""
        with ExitStack() as stack:
            live = Live(console=self.console, auto_refresh=False, screen=True)
            async with asyncio.TaskGroup() as tasks, aclosing(followed):
                async for heard in followed:
                    if isinstance(heard, Away):
                        self._away = heard.why
                    else:
                        if self._seen is None:
                            stack.enter_context(live)
                            tasks.create_task(self._again(live))
                        self._away, self._heard = "", self.clock.monotonic()
                        self._seen = TypedSnapshot.of(heard)
                    self._draw(live)

    async def _again(self, live: Live) -> None:
        while True:
            await self.clock.sleep(DRAWN)
            self._draw(live)

    def _draw(self, live: Live) -> None:
        if self._seen is None:
            return
        now = self._seen.at + self.clock.monotonic() - self._heard
        width, height = self.console.size
        live.update(
            render_picture(self._seen, now, self.server, self._away, width, height), refresh=True
        )


async def _told(followed: Followed, server: str, *, as_json: bool) -> None:
    """What is new, line by line; how it goes on stderr."""
    news, answers = NewsCursor(), False
    async with aclosing(followed):
        async for heard in followed:
            if isinstance(heard, Away):
                answers = False
                remark(f"{heard.why}; asked again")
                continue
            if not answers:
                answers = True
                remark(f"{server}: {TypedSnapshot.of(heard).status.headline}")
            for row in news.since(heard):
                if as_json:
                    print_json(news_json(row))
                else:
                    echo(news_line(row))
