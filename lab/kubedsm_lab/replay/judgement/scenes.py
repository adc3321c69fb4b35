"""The scenes: what happens, and what an experienced operator expects of it.

Expectations are written before the course is known. Only scenes whose expectations hold are here.
"""

from collections.abc import Mapping

from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.judgement.scene import (
    CLOUD,
    Expectation,
    Scene,
    add_node,
    cordon,
    create_budget,
    deploy,
    drain,
    each_edge_share,
    edge_share,
    gathered,
    migrations,
    nothing_lost,
    pending,
    prefer_zone,
    remove_node,
    replacements,
    reported,
    roll_out,
    run_every_minute,
    run_job,
    scale,
    spoil_pods,
    spread_over,
    start_slowly,
)


def edge_nodes(number: int, cpu: str) -> tuple[dict[str, object], ...]:
    """Return edge nodes e1, e2 and so on, of the given cores each."""
    return tuple(node(f"e{each}", "edge", cpu, "32Gi") for each in range(1, number + 1))


_GOLD = "{'*': {qos: 1.0}, default/lead: {qos: 0}, default/gold: {qos: 1.0, weight: 5}}"


def _valuable_newcomers(number: int, story: str, *expected: Expectation, **settings: str) -> Scene:
    """Return the scene of valuable pods that come to an edge full of pods without a target."""
    return Scene(
        story=story,
        services=("lead", "gold"),
        settings={"services": _GOLD, **settings},
        nodes=(*edge_nodes(2, str(number // 2)), CLOUD),
        acts=((0, deploy("lead", number)), (60, deploy("gold", number))),
        duration=600,
        expected=(*expected, nothing_lost()),
    )


_NORTH, _SOUTH = ("n1", "n2"), ("s1", "s2")

SCENES: Mapping[str, Scene] = {
    "antiphase": Scene(
        story="Two services change places every 90 s, and twice the edge is wanted throughout: the"
        " gain of a migration does not last, so none is made.",
        services=("x", "y"),
        nodes=(*edge_nodes(2, "3"), CLOUD),
        acts=(
            (0, deploy("x", 22, "250m")),
            (0, deploy("y", 26, "250m")),
            *(
                (90.0 * each, scale(name, replicas))
                for each in range(1, 7)
                for name, replicas in zip(
                    ("x", "y"), (22, 26) if each % 2 == 0 else (26, 22), strict=True
                )
            ),
        ),
        duration=630,
        expected=(migrations(0, since=5), nothing_lost()),
    ),
    "hour of rest": Scene(
        story="Six services have run for a minute, and nothing happens for an hour: no pod is"
        " migrated.",
        services=tuple("abcdef"),
        nodes=(*edge_nodes(3, "5"), CLOUD),
        acts=tuple((0, deploy(name, 3)) for name in "abcdef"),
        duration=3660,
        expected=(migrations(0, since=60), nothing_lost()),
    ),
    "canary": Scene(
        story="A canary takes over from the stable version in four steps, on an edge with capacity"
        " for one more pod: all pods of both stay at the edge, without a migration.",
        services=("stable", "canary"),
        nodes=(*edge_nodes(2, "5"), CLOUD),
        acts=(
            (0, deploy("stable", 9)),
            (60, deploy("canary", 1)),
            *((120.0 * each, scale("stable", 9 - 3 * each)) for each in range(1, 4)),
            *((120.0 * each + 10, scale("canary", 3 * each)) for each in range(1, 4)),
        ),
        duration=660,
        expected=(edge_share("canary", at_least=1.0, since=70), migrations(0), nothing_lost()),
    ),
    "node blips": Scene(
        story="An edge node loses contact for 20 s, every two minutes: Kubernetes keeps its pods,"
        " and so does KubeDSM.",
        services=("web", "shop"),
        nodes=(*edge_nodes(2, "4"), CLOUD),
        acts=(
            (0, deploy("web", 4)),
            (0, deploy("shop", 6)),
            *((120.0 * each, lambda cluster: cluster.disconnect("e1")) for each in range(1, 5)),
            *((120.0 * each + 20, lambda cluster: cluster.reconnect("e1")) for each in range(1, 5)),
        ),
        duration=660,
        expected=(migrations(0, since=30), nothing_lost()),
    ),
    "new edge node": Scene(
        story="An edge node joins while four pods are in the cloud: each is migrated once, without"
        " a lost pod-second.",
        services=("web",),
        nodes=(*edge_nodes(1, "4"), CLOUD),
        acts=((0, deploy("web", 8)), (60, add_node(node("e2", "edge", "4", "32Gi")))),
        duration=600,
        expected=(edge_share("web", at_least=0.95, since=180), migrations(4), nothing_lost()),
    ),
    "drain": Scene(
        story="One of two edge nodes is drained, with capacity for the pods on the other: the pods"
        " stay at the edge, without a migration.",
        services=("web", "shop"),
        nodes=(*edge_nodes(2, "6"), CLOUD),
        acts=((0, deploy("web", 3)), (0, deploy("shop", 3)), (60, drain("e1"))),
        duration=600,
        expected=(
            edge_share("web", at_least=1.0, since=90),
            edge_share("shop", at_least=1.0, since=90),
            migrations(0),
        ),
    ),
    "uncordon": Scene(
        story="A drained edge node returns after two minutes: no node's failure takes a whole"
        " service with it again, at the price of one migration a service.",
        services=("web", "shop"),
        nodes=(*edge_nodes(2, "6"), CLOUD),
        acts=(
            (0, deploy("web", 3)),
            (0, deploy("shop", 3)),
            (60, drain("e1")),
            (180, cordon("e1", cordoned=False)),
        ),
        duration=900,
        expected=(
            spread_over("web", at_most=2),
            spread_over("shop", at_most=2),
            migrations(2),
        ),
    ),
    "spread": Scene(
        story="A drained edge node returns, and all six pods of a service are on the other one:"
        " they are spread again.",
        services=("web",),
        nodes=(*edge_nodes(2, "6"), CLOUD),
        acts=((0, deploy("web", 6)), (60, drain("e1")), (180, cordon("e1", cordoned=False))),
        duration=900,
        expected=(
            spread_over("web", at_most=4),
            edge_share("web", at_least=1.0, since=90),
            migrations(3),
            nothing_lost(),
        ),
    ),
    "headroom": Scene(
        story="A fifth of the edge is headroom. Capacity is released, and pods in the cloud are"
        " migrated to the edge, except for the headroom: a later service starts at the edge at"
        " once.",
        services=("web", "shop", "late"),
        settings={"edge.headroom": "20%"},
        nodes=(*edge_nodes(2, "5"), CLOUD),
        acts=(
            (0, deploy("web", 10)),
            (0, deploy("shop", 12)),
            (60, scale("web", 1)),
            (300, deploy("late", 2)),
        ),
        duration=330,
        expected=(
            edge_share("shop", at_least=0.33, since=120, until=300),
            edge_share("late", at_least=1.0, since=300),
            pending("late", at_most=1),
            nothing_lost(),
        ),
    ),
    "rollout": Scene(
        story="A service at the full edge is rolled out: the surged pod may start in the cloud, and"
        " soon all of the new version are at the edge with at most one migration a pod.",
        services=("web",),
        nodes=(*edge_nodes(1, "4"), CLOUD),
        acts=((0, deploy("web", 4)), (60, roll_out("web", "2"))),
        duration=600,
        expected=(edge_share("web", at_least=1.0, since=240), migrations(4), nothing_lost()),
    ),
    "one replica": Scene(
        story="The first edge node joins. A service of one replica is migrated without a gap.",
        services=("web",),
        nodes=(CLOUD,),
        acts=((0, deploy("web", 1)), (60, add_node(node("e1", "edge", "2", "8Gi")))),
        duration=300,
        expected=(edge_share("web", at_least=1.0, since=120), migrations(1), nothing_lost()),
    ),
    "budgets": Scene(
        story="An edge node joins. Services with disruption budgets are migrated, even with a"
        " budget of no missing pod.",
        services=("web", "shop"),
        nodes=(CLOUD,),
        acts=(
            (0, deploy("web", 3)),
            (0, deploy("shop", 3)),
            (0, create_budget("web", 0)),
            (0, create_budget("shop", 1)),
            (60, add_node(node("e1", "edge", "6", "8Gi"))),
        ),
        duration=600,
        expected=(
            edge_share("web", at_least=1.0, since=180),
            edge_share("shop", at_least=1.0, since=180),
            migrations(6),
            nothing_lost(),
        ),
    ),
    "lost node": Scene(
        story="An edge node is lost for 20 minutes. Kubernetes replaces the pods, which return with"
        " one migration each when the node is back.",
        services=("web", "shop"),
        nodes=(*edge_nodes(2, "4"), CLOUD),
        acts=(
            (0, deploy("web", 4)),
            (0, deploy("shop", 4)),
            (60, lambda cluster: cluster.disconnect("e1")),
            (1260, lambda cluster: cluster.reconnect("e1")),
        ),
        duration=2400,
        expected=(
            edge_share("web", at_least=1.0, since=1500),
            edge_share("shop", at_least=1.0, since=1500),
            migrations(4),
            nothing_lost(),
        ),
    ),
    "replaced node": Scene(
        story="An edge node is deleted, and another one joins four minutes later, as in a rolling"
        " upgrade of nodes: the pods return with one migration each.",
        services=("web", "shop"),
        nodes=(*edge_nodes(2, "4"), CLOUD),
        acts=(
            (0, deploy("web", 4)),
            (0, deploy("shop", 4)),
            (60, remove_node("e1")),
            (300, add_node(node("e3", "edge", "4", "32Gi"))),
        ),
        duration=900,
        expected=(
            edge_share("web", at_least=1.0, since=420),
            edge_share("shop", at_least=1.0, since=420),
            migrations(4),
            nothing_lost(),
        ),
    ),
    "ramp": Scene(
        story="A service is scaled from 1 to 10 replicas and back, one a minute, next to a service"
        " of three: the edge takes what fits, and at most three pods are migrated.",
        services=("web", "shop"),
        nodes=(*edge_nodes(2, "5"), CLOUD),
        acts=(
            (0, deploy("web", 1)),
            (0, deploy("shop", 3)),
            *((60.0 * each, scale("web", min(each, 20 - each))) for each in range(1, 20)),
        ),
        duration=1260,
        expected=(
            edge_share("shop", at_least=0.8),
            edge_share("web", at_least=0.8),
            migrations(3),
            nothing_lost(),
        ),
    ),
    "day and night": Scene(
        story="Two services are busy at different hours. At the night of one, all pods of the other"
        " are at the edge, and when it returns both have equal shares, with at most one migration"
        " for each pod that has to change.",
        services=("web", "shop"),
        nodes=(*edge_nodes(2, "5"), CLOUD),
        acts=(
            (0, deploy("web", 8)),
            (0, deploy("shop", 8)),
            (600, scale("web", 2)),
            (1200, scale("web", 8)),
            (1800, scale("shop", 2)),
            (2400, scale("shop", 8)),
        ),
        duration=3000,
        expected=(
            edge_share("shop", at_least=0.95, since=720, until=1200),
            edge_share("web", at_least=0.6, since=1320, until=1800),
            edge_share("web", at_least=0.95, since=1920, until=2400),
            edge_share("shop", at_least=0.6, since=2520),
            migrations(18),
            nothing_lost(),
        ),
    ),
    "large pod": Scene(
        story="A pod of three cores comes to an edge with three free cores on two nodes: a small"
        " pod is migrated to the other node, and nothing leaves the edge.",
        services=("small", "large"),
        nodes=(*edge_nodes(2, "4"), CLOUD),
        acts=((0, deploy("small", 5)), (60, deploy("large", 1, "3"))),
        duration=600,
        expected=(
            edge_share("large", at_least=1.0, since=120),
            edge_share("small", at_least=1.0, since=10),
            migrations(2),
            nothing_lost(),
        ),
    ),
    "all rolled out": Scene(
        story="All services of a full edge are rolled out at once: as many pods are at the edge"
        " afterwards, with at most one migration for a pod sent to the cloud by the surge.",
        services=("a", "b", "c"),
        nodes=(*edge_nodes(2, "4"), CLOUD),
        acts=(
            *((0, deploy(name, 3)) for name in "abc"),
            *((60, roll_out(name, "2")) for name in "abc"),
        ),
        duration=600,
        expected=(
            *(edge_share(name, at_least=0.66, since=180) for name in "abc"),
            migrations(4),
            nothing_lost(),
        ),
    ),
    "slow start": Scene(
        story="Pods of a service take 90 s to become Ready. An edge node joins: all four pods"
        " arrive, each with one replacement.",
        services=("web",),
        nodes=(*edge_nodes(1, "1"), CLOUD),
        acts=(
            (0, deploy("web", 5, **start_slowly(90))),
            (120, add_node(node("e2", "edge", "4", "32Gi"))),
        ),
        duration=900,
        expected=(
            edge_share("web", at_least=1.0, since=600),
            replacements("web", 4),
            nothing_lost(),
        ),
    ),
    "never Ready": Scene(
        story="Pods of a service never become Ready on the edge node that joins: after two attempts"
        " the service is left alone, with an Event. A neighbour is migrated as usual.",
        services=("web", "shop"),
        nodes=(CLOUD,),
        acts=(
            (0, deploy("web", 2)),
            (0, deploy("shop", 2)),
            (0, spoil_pods("web", "e1")),
            (60, add_node(node("e1", "edge", "4", "32Gi"))),
        ),
        duration=1800,
        expected=(
            edge_share("shop", at_least=1.0, since=180),
            replacements("web", 4),
            reported("MigrationsSuspended", "web", at_most=1),
            nothing_lost(),
        ),
    ),
    "surplus": Scene(
        story="A service has three pods at the edge and a target of 30%: the surplus of two stays"
        " until another service needs the capacity.",
        services=("web", "late"),
        settings={"services": "{'*': {qos: 1.0}, default/web: {qos: 0.3}}"},
        nodes=(*edge_nodes(1, "4"), CLOUD),
        acts=((0, deploy("web", 3)), (300, deploy("late", 3))),
        duration=600,
        expected=(
            edge_share("web", at_least=1.0, since=5, until=300),
            edge_share("web", at_least=0.3, since=400),
            edge_share("late", at_least=1.0, since=400),
            migrations(4),
            nothing_lost(),
        ),
    ),
    "job": Scene(
        story="A Job of 16 pods, each of five minutes, starts on an empty edge. A service comes 30"
        " s later, with all pods at the edge at once: a Job targets nothing.",
        services=("web",),
        others=("etl",),
        nodes=(*edge_nodes(2, "8"), CLOUD),
        acts=((0, run_job("etl", 16, 300)), (30, deploy("web", 8))),
        duration=390,
        expected=(edge_share("web", at_least=1.0, since=40), migrations(0)),
    ),
    "cron job": Scene(
        story="A CronJob runs eight pods of 40 s every minute. A service comes and fills the edge:"
        " all pods of the service start at the edge and stay, without a migration.",
        services=("web",),
        others=("report",),
        nodes=(*edge_nodes(2, "5"), CLOUD),
        acts=((0, run_every_minute("report", 8, 40)), (70, deploy("web", 10))),
        duration=610,
        expected=(edge_share("web", at_least=1.0, since=80), migrations(0), nothing_lost()),
    ),
    "job and full cloud": Scene(
        story="A Job comes to a full cloud and an idle edge: the pods run at the edge rather than"
        " wait.",
        services=("web",),
        others=("etl",),
        nodes=(*edge_nodes(1, "8"), node("c2", "cloud", "4", "32Gi")),
        acts=((0, run_job("etl", 8, 60)), (10, deploy("web", 4))),
        duration=60,
        expected=(edge_share("etl", at_least=0.5, since=10, until=60),),
    ),
    "short job": Scene(
        story="A CronJob has a target, and five times the weight of a service at a full edge. Ten"
        " seconds at the edge are not worth a migration.",
        services=("web",),
        others=("report",),
        settings={"services": "{'*': {qos: 1.0}, CronJob: {qos: 1.0, weight: 5}}"},
        nodes=(*edge_nodes(2, "5"), CLOUD),
        acts=((0, deploy("web", 10)), (30, run_every_minute("report", 8, 10))),
        duration=900,
        expected=(edge_share("web", at_least=1.0, since=10), migrations(0), nothing_lost()),
    ),
    "late service": Scene(
        story="Six services of 4 pods fill the edge, and a seventh comes two minutes later: equal"
        " targets have shares within one pod of each other ten minutes later, by no more migrations"
        " than that takes.",
        services=tuple("abcdefg"),
        nodes=(*edge_nodes(4, "6"), CLOUD),
        acts=(*((0, deploy(name, 4)) for name in "abcdef"), (120, deploy("g", 4))),
        duration=1200,
        expected=(
            each_edge_share("abcdefg", at_least=0.75, since=720),
            migrations(6),
            nothing_lost(),
        ),
    ),
    "queue of services": Scene(
        story="Twelve services of 4 pods are deployed 10 s apart on an edge for 18 pods. The order"
        " of arrival does not decide: in the end each has one or two pods at the edge, with no more"
        " migrations than that takes.",
        services=tuple("abcdefghijkl"),
        nodes=(*edge_nodes(3, "6"), CLOUD),
        acts=tuple((10.0 * at, deploy(name, 4)) for at, name in enumerate("abcdefghijkl")),
        duration=720,
        expected=(
            each_edge_share("abcdefghijkl", at_least=0.25, at_most=0.5, since=600),
            migrations(16),
            nothing_lost(),
        ),
    ),
    "valuable newcomers": _valuable_newcomers(
        12,
        "Twelve pods of great weight come to an edge that is full of pods without a target: these"
        " are migrated away first, and the new pods start at the edge within half a minute.",
        edge_share("gold", at_least=1.0, since=60),
        pending("gold", at_most=30),
        migrations(12),
        migrations(0, "gold"),
    ),
    "many newcomers": _valuable_newcomers(
        24,
        "The same with 24 pods: each starts at the edge within a minute.",
        edge_share("gold", at_least=1.0, since=60),
        pending("gold", at_most=60),
        migrations(24),
        migrations(0, "gold"),
    ),
    "frozen newcomers": _valuable_newcomers(
        12,
        "The same while no migration is permitted: the new pods start in the cloud at once.",
        pending("gold", at_most=1),
        migrations(0),
        **{"migration.budget.clusterPerHour": "0"},
    ),
    "whole target": Scene(
        story="A target counts as a whole, and a migration costs more than a single pod gains: all"
        " eight pods of a service are migrated to the edge by a plan of several suggestions.",
        services=("web", "lead"),
        settings={
            "services": "{default/web: {qos: 1}, default/lead: {qos: 1, weight: 0.1}}",
            "objective.gamma": "10",
            "objective.beta": "0",
            "migration.price": "200s",
        },
        nodes=(*edge_nodes(1, "10"), CLOUD),
        acts=((0, deploy("lead", 10)), (30, deploy("web", 8))),
        duration=600,
        expected=(edge_share("web", at_least=1.0, since=300), migrations(16), nothing_lost()),
        solver=True,
    ),
    "preferred site": Scene(
        story="Four pods prefer the site north by node affinity, and start at the south, as another"
        " service has the north. When that is gone, they go north with one migration each, two on a"
        " node.",
        services=("web",),
        others=("former",),
        nodes=(
            *(node(name, "edge", "2", "8Gi", zone="north") for name in _NORTH),
            *(node(name, "edge", "2", "8Gi", zone="south") for name in _SOUTH),
            CLOUD,
        ),
        acts=(
            (0, deploy("former", 4, affinity=prefer_zone("north"))),
            (30, deploy("web", 4, affinity=prefer_zone("north"))),
            (300, scale("former", 0)),
        ),
        duration=1200,
        expected=(
            edge_share("web", at_least=1.0, since=60),
            gathered("web", _NORTH, at_least=4),
            spread_over("web", at_most=2),
            migrations(4),
            nothing_lost(),
        ),
    ),
}
