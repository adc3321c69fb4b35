"""Linearizability checker of capacity reservations and binds (Wing and Gong's search).

A history holds the operations of all schedulers, each with its begin and end. It is accepted if one
sequential order explains all results: every operation takes effect between its begin and its end,
and the books balance after each. States are memoised, as in Lowe's extension and in Porcupine.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import attrs
import orjson

from kubedsm.kube.client.port import ClusterFront, Request, Response, Unreachable
from kubedsm.kube.wire import decoding
from kubedsm.model.events import Change, ClusterEvent, PodApplied
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import NodeName, Resources
from kubedsm_lab.chaos.oracles import Asked
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import NODES, PODS
from kubedsm_lab.emulator.api.store import ObjectChange

_OK, _CONFLICT = 200, 409
#: lowest status of a failed request, and of one that may have been applied
_FAILED, _SERVER_ERROR = 400, 500


#: scheduler, holder, node, amount; and whether the outcome of the holder's bind is in doubt
Reserved = tuple[str, str, str, int, bool]


@attrs.define(eq=False)
class Operation:
    """Operation of a scheduler (`who`) on the books, or the deletion of a pod.

    kind: reserve, release, bind, lookup (a read, or a pod that the watch shows) or delete. `holder`
    is the pod's uid, or a migration's id.
    """

    who: str
    kind: str
    holder: str
    #: target, or the node that a lookup returned ("" for none)
    node: str = ""
    #: CPU in milli-cores
    amount: int = 0
    began: int = 0
    #: infinite without a response
    ended: float = math.inf
    #: whether a bind was applied; None if unknown
    applied: bool | None = True

    def __str__(self) -> str:
        return f"{self.who} {self.kind} {self.holder} {self.node}".rstrip()


@attrs.frozen
class Books:
    """State of the sequential specification: reservations of each scheduler, and bound pods."""

    reserved: frozenset[Reserved] = frozenset()
    #: pod, node, amount
    bound: frozenset[tuple[str, str, int]] = frozenset()

    def apply(self, done: Operation, capacity: Mapping[str, int]) -> "Iterator[Books]":
        """Yield the states after an operation; none if the operation may not happen here."""
        mine = next((r for r in self.reserved if r[:2] == (done.who, done.holder)), None)
        node = next((at for pod, at, _ in self.bound if pod == done.holder), "")
        match done.kind:
            case "reserve":
                taken = done.who, done.holder, done.node, done.amount, False
                own = [r for r in self.reserved if (r[0], r[2]) == (done.who, done.node)]
                room = capacity.get(done.node, 0) - sum(r[3] for r in own)
                if mine is None and done.amount <= room:
                    yield Books(self.reserved | {taken}, self.bound)
            case "release":
                # The capacity of a bind in doubt may be in use.
                if mine is not None and not mine[4]:
                    yield Books(self.reserved - {mine}, self.bound)
            case "bind":
                yield from self._bind(done, mine, node, capacity)
            case "lookup":
                if node == done.node:
                    yield self._dispel_doubt(mine)
            case "delete":
                bound = frozenset(each for each in self.bound if each[0] != done.holder)
                doubtful = [each for each in self.reserved if each[1] == done.holder]
                after = Books(self.reserved, bound)
                for each in doubtful:
                    after = after._dispel_doubt(each)
                yield after

    def _bind(
        self, done: Operation, mine: Reserved | None, node: str, capacity: Mapping[str, int]
    ) -> "Iterator[Books]":
        if mine is None or mine[2] != done.node:
            return  # nothing is reserved there
        reserved = self.reserved - {mine} | {(*mine[:4], done.applied is None)}
        used = sum(amount for _, at, amount in self.bound if at == done.node)
        if done.applied is not False and not node and used + mine[3] <= capacity.get(done.node, 0):
            yield Books(reserved, self.bound | {(done.holder, done.node, mine[3])})
        if not done.applied:
            yield Books(reserved, self.bound)

    def _dispel_doubt(self, mine: Reserved | None) -> "Books":
        if mine is None:
            return self
        return Books(self.reserved - {mine} | {(*mine[:4], False)}, self.bound)


def find_contradiction(
    history: Sequence[Operation], capacity: Mapping[str, int]
) -> Operation | None:
    """Return the first operation that no order explains, or None if the history is linearizable.

    capacity: CPU of each node in milli-cores. Operations without a response may not have happened.
    """
    sent = (each for each in history if each.kind == "bind" or each.ended < math.inf)
    operations = sorted(sent, key=lambda each: each.began)
    complete = sum(1 << n for n, each in enumerate(operations) if each.ended < math.inf)
    seen: set[tuple[int, Books]] = set()
    stack, furthest = [(0, Books())], 0
    while stack:
        done, books = stack.pop()
        if done & complete == complete:
            return None
        if (done, books) in seen:
            continue
        seen.add((done, books))
        open_ones = [n for n in range(len(operations)) if not done >> n & 1]
        furthest = max(furthest, next(n for n in open_ones if complete >> n & 1))
        end = min(operations[n].ended for n in open_ones)
        for number in reversed(open_ones):
            if operations[number].began < end:
                after = books.apply(operations[number], capacity)
                stack.extend((done | 1 << number, each) for each in after)
    return operations[furthest]


class History:
    """Recorder of the operations of all schedulers on the books of a chaos run."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self.operations: list[Operation] = []
        #: number of recorded begins and ends
        self._time = 0
        #: reservations by scheduler and holder: node and CPU
        self._held: dict[tuple[str, str], tuple[str, int]] = {}
        #: pods of which watches may still show former states
        self._deleted: set[str] = set()
        api.store.subscribe(self._notice)

    def check(self) -> Iterator[str]:
        """Yield the operation that no sequential order explains, if any."""
        nodes = map(decoding.node, self._api.list(NODES))
        wrong = find_contradiction(
            self.operations, {node.name: node.allocatable.amount("cpu") for node in nodes}
        )
        if wrong is not None:
            yield f"I2: the books are not linearizable: {wrong}"

    def record_mirror(self, who: str, mirror: ClusterMirror) -> None:
        """Record the reservations, releases and observed pods of a scheduler's mirror."""
        originals = mirror.reserve, mirror.release, mirror.hand_over, mirror.apply
        reserve, release, hand_over, apply = originals

        def record_reserve(holder: str, node: NodeName, requests: Resources) -> None:
            reserve(holder, node, requests)
            self._reserve(who, holder, node, requests.amount("cpu"))

        def record_release(holder: str) -> None:
            self._release(who, holder)
            release(holder)

        def record_hand_over(holder: str, pod: str) -> None:
            hand_over(holder, pod)
            held = self._release(who, holder)
            if held is not None:
                self._reserve(who, pod, *held)

        def record_apply(event: ClusterEvent) -> Change:
            if isinstance(event, PodApplied) and event.pod.uid not in self._deleted:
                pod = event.pod
                if pod.node_name or pod.terminating:
                    self._record(who, "lookup", pod.uid, pod.node_name or "")
            return apply(event)

        for name, method in (
            ("reserve", record_reserve),
            ("release", record_release),
            ("hand_over", record_hand_over),
            ("apply", record_apply),
        ):
            setattr(mirror, name, method)

    def begin(self, who: str, kind: str, holder: str, node: str = "") -> Operation:
        """Record the begin of an operation, whose end is unknown yet."""
        self._time += 1
        begun = Operation(who, kind, holder, node, began=self._time, applied=None)
        self.operations.append(begun)
        return begun

    def end(self, begun: Operation, *, applied: bool | None = True) -> None:
        self._time += 1
        begun.ended, begun.applied = self._time, applied

    def end_bind(self, begun: Operation, *, applied: bool | None) -> None:
        """Record the end of a bind. The refused bind of a deleted pod only shows the deletion: if
        the write gate delayed the bind, the reservation was released before.
        """
        if applied is False and begun.holder in self._deleted:
            begun.kind, begun.node, applied = "lookup", "", True
        self.end(begun, applied=applied)

    def _record(self, who: str, kind: str, holder: str, node: str = "", amount: int = 0) -> None:
        begun = self.begin(who, kind, holder, node)
        begun.amount = amount
        self.end(begun)

    def _reserve(self, who: str, holder: str, node: str, amount: int) -> None:
        self._held[who, holder] = node, amount
        self._record(who, "reserve", holder, node, amount)

    def _release(self, who: str, holder: str) -> tuple[str, int] | None:
        held = self._held.pop((who, holder), None)
        if held is not None:
            self._record(who, "release", holder)
        return held

    def _notice(self, change: ObjectChange) -> None:
        if change.resource is PODS and change.type == "DELETED":
            self._deleted.add(change.object["metadata"]["uid"])
            self._record("", "delete", change.object["metadata"]["uid"])


@attrs.define(eq=False)
class RecordedCluster(ClusterFront):
    """Cluster connection of the scheduler `who`, with binds and reads recorded."""

    history: History
    who: str

    async def request(self, request: Request, *, timeout: float) -> Response:
        asked = Asked(request, 0.0)
        if asked.kind == "bind":
            return await self._bind(request, timeout)
        looked_up = asked.pod and asked.kind == "GET"
        begun = self.history.begin(self.who, "lookup", "") if looked_up else None
        response = await self.cluster.request(request, timeout=timeout)
        if begun is not None and response.status == _OK:
            self._end_lookup(begun, response)
        return response

    def _end_lookup(self, begun: Operation, response: Response) -> None:
        try:
            read = orjson.loads(response.body)
            begun.holder, begun.node = read["metadata"]["uid"], read["spec"].get("nodeName", "")
        except (orjson.JSONDecodeError, KeyError):
            return  # no pod
        self.history.end(begun)

    async def _bind(self, request: Request, timeout: float) -> Response:
        uid, node = request.body["metadata"].get("uid", ""), request.body["target"]["name"]
        begun, applied = self.history.begin(self.who, "bind", uid, node), None
        try:
            response = await self.cluster.request(request, timeout=timeout)
        except Unreachable:
            applied = False
            raise
        else:
            if _FAILED <= response.status < _SERVER_ERROR and response.status != _CONFLICT:
                applied = False
            elif response.status < _FAILED and response.body.startswith(b"{"):
                applied = True  # not a page of a proxy
            return response
        finally:
            self.history.end_bind(begun, applied=applied)
