"""Opting namespaces and workloads in to the scheduler, and out again."""

from collections.abc import Awaitable, Callable, Sequence

import attrs
import click

from kubedsm.app.live_configuration import find_document_in
from kubedsm.cli.cluster import connect_cluster
from kubedsm.cli.console import remark, until_interrupted
from kubedsm.cli.options import AdoptionOptions
from kubedsm.config.settings import load
from kubedsm.kube.calls import adoption, leases
from kubedsm.kube.calls.adoption import DEFAULT_SCHEDULER, EXEMPT_NAMESPACES, KINDS, Template
from kubedsm.kube.client.port import Cluster, ClusterError, ObjectName, is_name
from kubedsm.model.model import Workload
from kubedsm.process.clock import Clock, SystemClock, rfc3339
from kubedsm.terminal.echo import echo
from kubedsm.terminal.running import nearest

#: exit code if some targets failed
NOT_ALL = 3
#: seconds within which a live leader renews its Lease several times
ALIVE = 3.0
#: kinds by the names that kubectl accepts
_KINDS = {
    "deploy": "Deployment",
    "sts": "StatefulSet",
    **{kind.lower(): kind for kind in KINDS},
    **{plural: kind for kind, plural in KINDS.items()},
}
_POLICY = "manifests/overlays/opt-in"
FORMS = "write NAMESPACE, or KIND/NAMESPACE/NAME such as deployment/shop/cart"


#: a namespace, or a workload
Target = str | Workload


def parse_target(word: str, namespace: str | None) -> Target:
    """Parse the argument of `kubedsm opt-in`: NAMESPACE, KIND/NAMESPACE/NAME, or KIND/NAME in
    `namespace`. Raises UsageError.
    """
    first, *rest = word.split("/")
    if first in ("namespace", "namespaces", "ns") and len(rest) == 1:
        first, rest = rest[0], []
    if not all(map(is_name, (first, *rest))):
        raise click.UsageError(f"{word!r} names neither a namespace nor a workload; {FORMS}")
    if not rest:
        return first
    kind = _KINDS.get(first)
    if kind is None:
        near = nearest(first, list(_KINDS))
        raise click.UsageError(f"{word}: {first} is not a kind of workload; {FORMS}.{near}")
    where, name = (rest[0], rest[1:]) if rest[1:] else (namespace, rest)
    if where is None or len(name) > 1:
        raise click.UsageError(f"{word}: name its namespace, as {first}/NAMESPACE/NAME or by -n")
    return Workload(where, kind, name[0])


def run_adoption(options: AdoptionOptions, *, leave: bool) -> int:
    """Opt the given namespaces and workloads in to the scheduler, or out; return the exit code."""
    targets = [parse_target(word, options.namespace) for word in options.targets]

    async def act() -> int:
        async with connect_cluster(options.kubeconfig) as cluster:
            adopting = Adoption(cluster, options, SystemClock())
            return await (adopting.opt_out(targets) if leave else adopting.opt_in(targets))

    return until_interrupted(act())


@attrs.frozen
class Adoption:
    """Opts namespaces and workloads in to the scheduler, or out, with the user's own RBAC rights,
    and prints each change.
    """

    cluster: Cluster
    options: AdoptionOptions
    clock: Clock

    async def opt_in(self, targets: Sequence[Target]) -> int:
        """Opt in namespaces by a label, workloads by their pod template; return the exit code.

        Raises ClickException if no scheduler leads, if a namespace is exempt, its workloads
        included, or if the admission policy is absent.
        """
        namespaces = [target for target in targets if isinstance(target, str)]
        workloads = [target for target in targets if isinstance(target, Workload)]
        for name in (*namespaces, *(workload.namespace for workload in workloads)):
            if name in (*EXEMPT_NAMESPACES, self.options.config_map.namespace):
                raise click.ClickException(
                    f"namespace {name} cannot opt in: pods of the cluster itself must not wait for"
                    " KubeDSM"
                )
        if not self.options.force:
            await self._require_leader(self.options.config_map)
        if namespaces and await adoption.has_policy(self.cluster) is False:
            raise click.ClickException(
                f"the admission policy {adoption.POLICY_NAME} is absent: kubectl apply -k {_POLICY}"
                " (Kubernetes 1.36 or newer). Without the policy, name each workload, such as"
                f" deployment/{namespaces[0]}/NAME"
            )
        scheduler_name = ""
        if workloads:  # the policy has the name for namespaces
            text, source = await find_document_in(self.cluster, self.options.config_map)
            scheduler_name = load(text or "", source).scheduler_name

        async def join(target: Target) -> None:
            if isinstance(target, str):
                await self._opt_in_namespace(target)
            else:
                await self._set_scheduler(target, scheduler_name, exempt=False)

        return await _change_each(targets, join)

    async def opt_out(self, targets: Sequence[Target]) -> int:
        """Opt out namespaces and workloads; return the exit code.

        Running pods of a namespace continue; pods of a named workload are replaced. In a namespace
        that stays opted in, a label of the pod template exempts the workload.
        """

        async def leave(target: Target) -> None:
            if isinstance(target, str):
                await self._opt_out_namespace(target)
            else:
                namespace = target.namespace
                exempt = namespace not in targets and await adoption.is_opted_in(
                    self.cluster, namespace
                )
                await self._set_scheduler(target, DEFAULT_SCHEDULER, exempt=exempt)

        return await _change_each(targets, leave)

    async def _opt_in_namespace(self, name: str) -> None:
        await self._label(name, "true")
        self._say(f"namespace/{name} opted in")
        templates = await adoption.list_templates(self.cluster, name)
        for found in templates:
            if found.scheduler_name != DEFAULT_SCHEDULER or found.refuses_policy:
                self._say(f"{found} keeps the scheduler of its pod template")
        await self._restart_all(templates)
        if templates and not self.options.restart:
            self._say("running pods follow when they are replaced; --restart replaces them now")

    async def _opt_out_namespace(self, name: str) -> None:
        await self._label(name, None)
        self._say(f"namespace/{name} opted out")
        templates = await adoption.list_templates(self.cluster, name)
        for found in templates:
            if found.scheduler_name != DEFAULT_SCHEDULER:
                self._say(f"{found} keeps the scheduler of its pod template; opt it out by name")
        await self._restart_all(templates)

    async def _label(self, name: str, value: str | None) -> None:
        await adoption.label_namespace(self.cluster, name, value, dry_run=self.options.dry_run)

    async def _restart_all(self, templates: Sequence[Template]) -> None:
        """Restart workloads whose scheduler the admission policy sets, if requested."""
        at = rfc3339(self.clock.wall(), micro=False)
        for found in templates if self.options.restart else ():
            if found.scheduler_name == DEFAULT_SCHEDULER and not found.refuses_policy:
                self._say(found.describe_rollout())
                if not self.options.dry_run:
                    await adoption.restart(self.cluster, found, at)

    async def _set_scheduler(self, workload: Workload, name: str, *, exempt: bool) -> None:
        found = await adoption.get_template(self.cluster, workload)
        if (found.scheduler_name, found.refuses_policy) == (name, exempt):
            self._say(f"{found} has the scheduler {name} already")
            return
        self._say(found.describe_rollout())
        if not self.options.dry_run:
            await adoption.set_scheduler(self.cluster, found, name, exempt=exempt)
        self._say(f"{found} {'opted out' if name == DEFAULT_SCHEDULER else 'opted in'}")

    def _say(self, text: str) -> None:
        echo(text + " (dry run)" * self.options.dry_run)

    async def _require_leader(self, name: ObjectName) -> None:
        """Raise ClickException unless a leader renews the Lease: opted-in pods would wait."""
        found = await leases.read(self.cluster, name)
        if found is not None and found.term.holder:
            await self.clock.sleep(ALIVE)
            later = await leases.read(self.cluster, name)
            if later is not None and later.term.holder and later.term != found.term:
                return
        raise click.ClickException(
            f"no KubeDSM leads by the Lease {name}, and opted-in pods would wait: start the"
            f" scheduler (kubectl -n {name.namespace} get pods), or opt in ahead of it by --force"
        )


async def _change_each(
    targets: Sequence[Target], change: Callable[[Target], Awaitable[None]]
) -> int:
    """Change each target, and report failures; return 3 if some failed."""
    code = 0
    for target in targets:
        try:
            await change(target)
        except ClusterError as error:
            remark(f"{target}: {error}")
            code = NOT_ALL
    return code
