"""Migration suggestions: worthwhile migrations to the edge, to the cloud, and within the edge.

`exact` finds the best suggestion within the limits; `paper` is Algorithms 2 and 4-6 of the KubeDSM
paper. Both propose feasible migrations in groups; each group is selected by its benefit.
"""

from collections.abc import Collection, Iterable
from itertools import chain, islice
from typing import Literal

import attrs

from kubedsm.model.model import Pod, Tier, Uid
from kubedsm.model.node_index import Column
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Fragmentation, Measure, request_mix
from kubedsm.objective.gains import Gains, Worths, leading_gain
from kubedsm.objective.lasting import Lasting, assume_prior
from kubedsm.objective.load import LoadGoal
from kubedsm.objective.objective import Objective, QosTargets, quality
from kubedsm.objective.qos_targets import is_capped, without_caps
from kubedsm.objective.site_shares import list_worst_losses
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.moving import paper
from kubedsm.optimizer.moving.edge_problem import EdgeProblem, Proposal
from kubedsm.optimizer.moving.exact import suggest_exact
from kubedsm.optimizer.moving.group_selection import Selection, select_groups
from kubedsm.optimizer.moving.movable import (
    Movable,
    default_movable,
    join_movable,
    reject_capped,
    reject_sited,
)
from kubedsm.optimizer.moving.plans import Towards, find_next_group
from kubedsm.optimizer.moving.site_moves import SiteMoves, Step, shares_with
from kubedsm.optimizer.moving.stay_reasons import StayReasons
from kubedsm.optimizer.moving.suggestion import (
    Cause,
    ClusterScore,
    Leg,
    Move,
    Moves,
    NotTaken,
    Suggestion,
    SuggestLimits,
    gain_per_disruption,
    list_steps,
    split_into_legs,
)
from kubedsm.optimizer.moving.within_tier import (
    OneMore,
    balance_load,
    list_preferring,
    list_spreading,
)
from kubedsm.optimizer.programming.in_order import Certificate
from kubedsm.optimizer.programming.programme import Status

#: Exact-search limit of a suggestion: a few tenths of a second.
SUGGEST_BOUNDS = Bounds(states=2_000_000, steps=20_000_000, loads=40_000)


def _accept_any(_: Pod) -> None:
    return None


def suggest(
    snapshot: Snapshot,
    qos_targets: QosTargets,
    objective: Objective,
    limits: SuggestLimits,
    *,
    algorithm: Literal["exact", "paper"] = "exact",
    measure: Measure = Measure.UNUSABLE,
    bounds: Bounds = SUGGEST_BOUNDS,
    movable: Movable = _accept_any,
    lasting: Lasting = assume_prior,
    load: LoadGoal | None = None,
    site_labels: tuple[str, ...] = (),
    towards: Towards | None = None,
    new: Collection[Uid] = (),
) -> Suggestion:
    """Return the migrations of running pods whose benefit exceeds their disruption, with scores and
    explanations.

    movable: the reason why a pod must not be migrated, or None; `default_movable` applies always.
    Other pods only hold capacity. Pending pods count in the totals of their workloads; capacity may
    be made for pods without a feasible node, and for `new` pods, which could start in the cloud.

    Suggesting terminates, because each suggestion leads to a strictly greater QoS; or, at equal
    QoS, to a pod on a strictly preferred node, to strictly fewer pairs of replicas on a node or in
    a zone (with spread), or to no more and strictly less fragmentation (with defragment). QoS
    compares by the highest changed priority.
    Without beneficial migrations, a migration may balance load. After the deadline the best so far
    is returned, unproven.

    towards: targets of the remaining migrations of a plan (`Suggestion.rest`), or empty; None
    forbids plans. A group of a plan may lower QoS; the plan as a whole raises it.

    site_labels: labels of edge nodes that name their site. Pods of workloads with demand by site
    are migrated by `site_moves`, next to the other migrations or together with them.
    """
    may_move = join_movable(default_movable(snapshot), movable)
    gains = Gains.of(snapshot, qos_targets, objective)
    sited = {workload for workload in gains.shares if qos_targets(workload).demand is not None}
    sites = snapshot.index.site(site_labels) if sited else None
    reason_to_stay = reject_sited(sited, may_move) if sited else may_move
    wished = gains
    if any(is_capped(qos_targets, workload) for workload in gains.shares):
        wished = Gains.of(snapshot, without_caps(qos_targets), objective)
    fragmentation = Fragmentation(measure, request_mix(snapshot))
    before = ClusterScore.of(snapshot, qos_targets, objective, fragmentation)
    exact = algorithm == "exact"
    if not exact:
        limits = attrs.evolve(limits, price=0.0, spread=False)
    found = Suggestion(before=before, after=before, proven=exact)
    if wished.possible or limits.defragment:
        stays = reject_capped(snapshot, qos_targets, reason_to_stay)
        # The rest of the work is for migrations by site.
        within = bounds if sites is None else bounds.part(0.5)
        problem = EdgeProblem.of(
            snapshot, stays, fragmentation, gains, limits, within, lasting, new
        )
        found = _change_edge(problem, found, wished, stays, towards)
    if exact:
        one_more = OneMore(
            snapshot, limits, may_move, fragmentation, bounds.deadline, sites=sites, sited=sited
        )
        if sites is not None:
            worths = Worths(gains, lasting) if limits.price else gains
            uncapped = reject_capped(snapshot, qos_targets, may_move)
            search = SiteMoves(
                attrs.evolve(one_more, movable=uncapped), gains, worths, sites, bounds
            )
            found = _add_site_moves(found, search)
        beside = attrs.evolve(one_more, others=found.placed)
        found = _rebalance_workload(found, beside, gains, lasting)
        if load is not None and not found.placed:
            move = balance_load(one_more, load)
            found = found if move is None else _add_migration(found, move)
    if not found.placed:
        return found
    return _score_suggestion(found, snapshot, gains, fragmentation, sites)


def _score_suggestion(
    found: Suggestion,
    snapshot: Snapshot,
    gains: Gains,
    fragmentation: Fragmentation,
    sites: Column | None,
) -> Suggestion:
    """Add the scores of the cluster after all migrations."""
    moved = shares_with(gains.shares, found.placed, snapshot.index.positions, sites)
    shares, room = {**gains.shares, **moved}, snapshot.room.after(list_steps(found.placed))
    after = ClusterScore(
        quality(shares, gains.qos_targets, gains.objective),
        shares,
        fragmentation.of(snapshot.in_turn(Tier.EDGE, room)),
    )
    losses = list_worst_losses(shares, gains.qos_targets, moved)
    return attrs.evolve(found, after=after, worst_losses=losses)


def _change_edge(
    problem: EdgeProblem,
    found: Suggestion,
    wished: Gains,
    stays: Movable,
    towards: Towards | None,
) -> Suggestion:
    """Add the next migrations of a plan, or the worthwhile migrations within the limits.

    found: the empty suggestion, proven unless the algorithm is the paper's. wished: gains without
    caps of slower edges.
    """
    if not found.proven:
        return _select_proposal(problem, found, paper.suggest(problem), wished, stays)
    if towards and (group := find_next_group(problem, towards)) is not None:
        return _add_selected(found, group)
    hasty = problem
    if towards is not None:
        hasty = attrs.evolve(problem, bounds=problem.bounds.part(_PART))
    selected = _select_proposal(problem, found, suggest_exact(hasty), wished, stays)
    if towards is None or selected.placed:
        return selected
    group = find_next_group(problem, {})
    return selected if group is None else _add_selected(found, group)


#: Part of the work limit for migrations within the limits, before a plan.
_PART = 0.7
#: Most pods whose staying is explained.
_MOST = 10


def _select_proposal(
    problem: EdgeProblem,
    found: Suggestion,
    proposal: Proposal,
    wished: Gains,
    movable: Movable,
) -> Suggestion:
    """Return the worthwhile migrations, and the reasons against the best others."""
    selected = select_groups(problem, proposal.order)
    moves = selected.moves
    dropped = list(selected.dropped)
    named = {move.pod.uid for move in moves} | {left.pod.uid for left in dropped}
    for impasse in proposal.refused:
        if impasse.move.pod.uid not in named:
            named.add(impasse.move.pod.uid)
            dropped.append(NotTaken(impasse.move.pod, impasse.reason))
    proven = proposal.proven if found.proven else None
    stays = StayReasons(problem, moves, movable, proven)
    reasons = islice(stays.list_reasons(wished, named), max(0, _MOST - len(dropped)))
    return attrs.evolve(
        _add_selected(found, selected),
        rejected=(*dropped[:_MOST], *reasons),
        proven=proposal.proven,
        certificate=_certify_moves(problem, proposal, moves),
    )


def _add_selected(found: Suggestion, selected: Selection) -> Suggestion:
    """Add the selected migrations to an empty suggestion."""
    return attrs.evolve(
        found,
        moves=tuple(move for move in selected.moves if move.source is not None),
        legs=selected.order.legs(selected.moves),
        awaited=tuple(move for move in selected.moves if move.source is None),
        rest=selected.rest,
        proven=False,
    )


def _certify_moves(problem: EdgeProblem, proposal: Proposal, moves: Moves) -> Certificate | None:
    """Return the optimality certificate of the selected migrations."""
    certificate = proposal.certificate
    if certificate is None:
        return None
    value = problem.net(moves)[proposal.level]
    proven = certificate.proven and value == certificate.bound
    return attrs.evolve(
        certificate, value=value, status=Status.OPTIMAL if proven else Status.FEASIBLE
    )


def _rebalance_workload(
    found: Suggestion,
    one_more: OneMore,
    gains: Gains,
    lasting: Lasting,
) -> Suggestion:
    """Add one worthwhile migration of a pod to a node that it prefers, or else of a workload whose
    replicas share nodes.
    """
    left: list[NotTaken] = []
    price = one_more.limits.price
    ways = (list_preferring, list_spreading) if one_more.limits.spread else (list_preferring,)
    for move, worth in chain(*(way(one_more, gains, lasting) for way in ways)):
        if not price or worth > price:
            return _add_migration(found, move)
        left.append(NotTaken(move.pod, Cause.BELOW_ITS_PRICE.of(worth, price)))
    return attrs.evolve(found, rejected=(*found.rejected, *left[:1]))


def _add_site_moves(found: Suggestion, search: SiteMoves) -> Suggestion:
    """Add the migrations towards users of workloads with demand by site, a group for each step.

    Migrations of other workloads were found without those: the best of both kinds together replace
    both, if their benefit is greater.
    """
    positions, before = search.one_more.snapshot.index.positions, search.gains.shares
    shares = {**before, **shares_with(before, found.placed, positions, search.sites)}
    beside = attrs.evolve(
        search,
        one_more=attrs.evolve(search.one_more, others=found.placed),
        gains=search.gains.with_shares(shares),
        worths=search.worths.with_shares(shares),
    )
    steps = beside.search()
    # With the pods of the other migrations, the programme is no smaller.
    if beside.solves_all and found.moves and not found.awaited and not found.rest:
        apart = search.net_of([*found.moves, *_list_moves(steps)])
        together = attrs.evolve(search).search()
        if search.net_of(_list_moves(together)) > apart:
            steps = together
            found = attrs.evolve(found, moves=(), legs=(), certificate=None)
    moved = {move.pod.uid for move in _list_moves(steps)}
    rejected = tuple(each for each in found.rejected if each.pod.uid not in moved)
    for number, step in enumerate(steps, _next_group(found)):
        gain = leading_gain(gain_per_disruption(step.gain, step.order.moves))
        moves = [attrs.evolve(move, group=number, gain=gain) for move in step.order.moves]
        found = _add_moves(found, moves, step.order.legs(moves))
    return attrs.evolve(found, rejected=rejected, proven=False)


def _list_moves(steps: Iterable[Step]) -> list[Move]:
    return [move for step in steps for move in step.order.moves]


def _add_migration(found: Suggestion, move: Move) -> Suggestion:
    """Add a migration to the suggestion as a group of its own, independent of the other
    migrations.
    """
    move = attrs.evolve(move, group=_next_group(found))
    return _add_moves(found, [move], split_into_legs(move, frozenset()))


def _next_group(found: Suggestion) -> int:
    return max((move.group for move in found.placed), default=-1) + 1


def _add_moves(found: Suggestion, moves: Iterable[Move], legs: Iterable[Leg]) -> Suggestion:
    return attrs.evolve(found, moves=(*found.moves, *moves), legs=(*found.legs, *legs))
