"""Algorithm 2: `suggest` as the KubeDSM paper has it.

Candidates are pods of the cloud that fit into the room the edge has now, in sum; so no pod is
ever asked to make room for them, and the exact form finds more. Kept to compare with.
"""

import attrs
import numpy as np

from kubedsm.objective.fragmentation import Ints
from kubedsm.objective.gains import Gains
from kubedsm.optimizer.matching.match import Bounds, match
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.move_order import Impasse
from kubedsm.optimizer.moving.pairing import pair
from kubedsm.optimizer.moving.paper.decision_migration import (
    MigrationDecision,
    make_decision_with_migration,
)
from kubedsm.optimizer.moving.paper.free_edge import free_edge_as_needed, item_sizes
from kubedsm.optimizer.moving.proposal import Proposal, Question, allowed_of
from kubedsm.optimizer.moving.reorder_edge import reorder_edge


def suggest_paper(question: Question) -> Proposal:
    """Up to `max_cloud_to_edge` pods to the edge, and up to `max_edge_reorder` moves within it.

    First the moves within the edge that leave the least fragmentation, then as many of the chosen
    candidates as fit; of all these what the rules about other pods allow.
    """
    problem, plan = question.problem, paper_plan(question)
    states = plan.decision.choices
    if not plan.decision.chosen.any():
        return Proposal(proven=False, states=states)
    placed = _placed(problem, plan.decision.chosen, plan.changes, question.bounds)
    moves = pair(problem, plan.changes + placed)
    if isinstance(moves, Impasse) and problem.rules is not None:
        order, refused = allowed_of(problem.rules.feasibility, moves.moves, problem.room)
        return Proposal(order.moves, proven=False, states=states, refused=refused)
    return Proposal(moves if isinstance(moves, tuple) else (), proven=False, states=states)


@attrs.frozen(eq=False)
class PaperPlan:
    decision: MigrationDecision
    #: N x I: what leaves the edge for the chosen candidates, and moves within it; without them
    changes: Ints

    @property
    def moves(self) -> int:
        """The chosen candidates', too."""
        return int(self.decision.chosen.sum() + np.maximum(-self.changes, 0).sum())


def paper_plan(question: Question) -> PaperPlan:
    """What the paper's form decides, before the candidates get their nodes."""
    problem, gains, bounds = question.problem, question.gains, question.bounds
    most = question.limits.max_cloud_to_edge
    room = problem.to_fill(question.limits.headroom)
    candidates = cloud_to_edge_candidates(problem, gains, most, bounds.loads, room)
    freeing = free_edge_as_needed(problem, gains, bounds.deadline)
    decision = make_decision_with_migration(problem, candidates, freeing, gains)
    index = {node.name: at for at, node in enumerate(problem.nodes)}
    changes = np.zeros_like(problem.present)
    for item, name in zip(
        freeing.items[: decision.freed], freeing.nodes[: decision.freed], strict=True
    ):
        changes[index[name], item] -= 1
    free, present = problem.free - changes @ problem.requests, problem.present + changes
    if decision.chosen.any():
        reordered = reorder_edge(problem, free, present, question.limits.max_edge_reorder, bounds)
        if reordered is not None:
            changes += reordered
    return PaperPlan(decision, changes)


def cloud_to_edge_candidates(
    problem: EdgeProblem, gains: Gains, most: int, choices: int, room: Ints
) -> Ints:
    """How many pods of each item, I, are picked by priority, then by QoS gained for their size.

    Looked at anew after every pick, up to `most`, or until there are so many `choices` among them.
    One fits if the free room of all edge nodes together, R, is enough for it and those before it.
    """
    sizes = item_sizes(problem)
    candidates = np.zeros(len(problem.items), dtype=np.int64)
    change = dict.fromkeys(problem.workloads, 0)
    able = [at for at, item in enumerate(problem.items) if item.outside]

    def score(index: int) -> float:
        workload = problem.items[index].workload
        now = change[workload]
        more = gains.of_workload(workload, now + 1) - gains.of_workload(workload, now)
        return more / sizes[index]

    def turn(index: int) -> tuple[int, float]:
        return -gains.level[problem.items[index].workload], score(index)

    while able and int(candidates.sum()) < most and int(np.prod(candidates + 1)) < choices:
        best = max(able, key=turn)
        requests = problem.requests[best]
        if score(best) <= 0 or not bool(((requests <= room) | (requests == 0)).all()):
            able.remove(best)
            continue
        room = room - requests
        candidates[best] += 1
        change[problem.items[best].workload] += 1
        if int(candidates[best]) == len(problem.items[best].outside):
            able.remove(best)
    return candidates


def _placed(problem: EdgeProblem, chosen: Ints, changes: Ints, bounds: Bounds) -> Ints:
    """Where the candidates find room once the edge has changed, N x I."""
    room = dict(problem.room)
    for (node, item), number in np.ndenumerate(changes):
        for _ in range(abs(int(number))):
            requests, name = problem.items[item].requests, problem.nodes[node].name
            room[name] = room[name] - requests if number > 0 else room[name] + requests
    pods = {
        pod: index
        for index, number in enumerate(chosen.tolist())
        for pod in problem.items[index].outside[:number]
    }
    matched = match(pods, problem.nodes, room, problem.fragmentation, bounds)
    index = {node.name: at for at, node in enumerate(problem.nodes)}
    placed = np.zeros_like(changes)
    for pod, name in matched.targets:
        placed[index[name], pods[pod]] += 1
    return placed
