"""Configuration documents: where values come from, all mistakes at once, and measured load."""

import msgspec
import pytest

from kubedsm.cli.inputs import mirror_of
from kubedsm.config.documents import DocumentError
from kubedsm.config.load_aware import NodeCapacity
from kubedsm.config.mismatches import list_mismatches
from kubedsm.config.origins import Origins
from kubedsm.config.settings import dump, list_mistakes, load
from kubedsm.kube.wire import dump as dumps
from kubedsm.model.model import Workload
from support.dumps import dump_of, node, pod

TEXT = """# ours
suggester: {period: 1s}
services:
  shop/*:
    qos: 0.5
  shop/cart: {weight: 2,
              latencyTarget: 30ms}
"""


def origins(text=TEXT):
    return Origins.of(load(text, "c.yaml"), text, "c.yaml")


def test_values_have_their_line_and_services_the_entry_that_says_so():
    values = {".".join(key): (value, where) for key, value, where in origins().values()}
    assert values["suggester.period"] == ("1s", "c.yaml:2")
    assert values["suggester.mode"] == ("apply", "default")
    assert values["optimiser.mode"] == ("apply", "default")
    assert values["latency.neighbour"] == ("50ms", "default")
    assert values["services.shop/*.qos"] == (0.5, "c.yaml:5")
    assert values["services.shop/cart.latencyTarget"] == ("30ms", "c.yaml:7")
    assert values["services.*.qos"] == (1.0, "default")
    assert values["services.*.weight"] == (1.0, "default")
    said = origins()
    cart, other = (Workload("shop", "Deployment", name) for name in ("cart", "other"))
    assert said.of_service(cart, {}, "qos", "latency_target") == "services.shop/cart, c.yaml:7"
    assert said.of_service(other, {}, "qos", "latency_target") == "services.shop/*, c.yaml:5"
    assert said.of_service(other, {}, "weight") == "default"
    assert said.of_service(cart, {}, "mode") == "default"


def test_the_effective_document_means_the_same():
    for text in (TEXT, "", "services: {'*': {latencyTarget: 1s}}", "fairness: {}"):
        whole = Origins.of(load(text, "x"), text, "x")
        again = load(msgspec.yaml.encode(whole.effective), "again")
        for name in ("cart", "other"):
            workload = Workload("shop", "Deployment", name)
            assert again.qos_target(workload) == whole.configuration.qos_target(workload)


def test_every_mistake_is_told_once():
    text = """
suggester: {period: 0s, mod: off}
batch: {idle: 1s, max: 5ms}
services:
  shop/*: {qos: 2}
  7: {}
migration: {windows: [{schedule: never}]}
latency: {edge: 1s}
objective: {kind: latency}
"""
    assert [str(each) for each in list_mistakes(text, "c.yaml")] == [
        "c.yaml: suggester.mod: unknown key; did you mean mode?",
        "c.yaml: suggester.period: 0s is not between 10ms and 24h",
        "c.yaml: batch.max: 5ms is shorter than idle, 1s",
        "c.yaml: services.shop/*.qos: 2 is not between 0 and 1",
        (
            "c.yaml: migration.windows.0.schedule: 'never' is not five fields of a cron schedule,"
            ' such as "0 22 * * mon-fri"'
        ),
        (
            "c.yaml: services.7: '7' is not namespace/name, namespace/*, */name, Kind,"
            " namespace/Kind, label=value or *"
        ),
        "c.yaml: objective.kind: needs latency.edge, 1s, below latency.cloud, 80ms",
    ]
    with pytest.raises(DocumentError) as refused:
        load(text, "c.yaml")
    first, *told, more = str(refused.value).split("; ")
    assert first == "c.yaml: suggester.mod: unknown key"
    keys = [
        "did you mean mode?",
        "suggester.period",
        "batch.max",
        "services.shop/*.qos",
        "migration.windows.0.schedule",
    ]
    assert [each.partition(":")[0] for each in told] == keys
    assert more == "and more, as `kubedsm config check` lists"
    assert list_mistakes(TEXT, "c.yaml") == []
    [unreadable] = list_mistakes("a: [", "c.yaml")
    assert str(unreadable).startswith("c.yaml: not YAML: ")
    assert len(list_mistakes(b"\xff" * 1_000_000, "c.yaml")) == 1


EDGE, CLOUD = node("e1", "edge"), node("c1", "cloud")
LABEL = "kubectl label node NAME kubedsm.io/tier"


def said_of(*items, text=""):
    configuration = load(text, "test")
    snapshot = mirror_of(dumps.read(dump_of(*items), "dump"), configuration).snapshot()
    return list(list_mismatches(snapshot, configuration))


PODS = (
    pod("video"),
    pod("job", namespace="batch"),
    pod("theirs", scheduler="default-scheduler", namespace="legacy"),
)
NOTHING = "matches no workload that has pods"


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("shop/video", None),
        ("shop/*", None),
        ("*/video", None),
        ("*", None),
        ("shop/vido", f"{NOTHING}; did you mean shop/video?"),
        ("shpo/video", f"{NOTHING}; did you mean shop/video?"),
        ("bathc/*", f"{NOTHING}; did you mean batch/*?"),
        ("*/vidoe", f"{NOTHING}; did you mean */video?"),
        ("shop/cart", NOTHING),
        ("legacy/*", "matches only pods of other schedulers: they need schedulerName: kubedsm"),
        (
            "legacy/theirs",
            "matches only pods of other schedulers: they need schedulerName: kubedsm",
        ),
    ],
)
def test_a_key_of_services_that_matches_nothing_is_told_with_the_nearest_that_does(key, said):
    found = said_of(EDGE, CLOUD, *PODS, text=f"services: {{'{key}': {{qos: 0.5}}}}")
    assert found == ([] if said is None else [f"services.{key} {said}"])


def test_of_many_keys_the_first_are_told_and_the_others_counted():
    keys = ", ".join(f"shop/s{number}x: {{qos: 1}}" for number in range(13))
    *told, counted = said_of(EDGE, CLOUD, text=f"services: {{{keys}}}")
    assert len(told) == 10
    assert counted == "3 more keys of services match no workload that has pods"


def test_demand_at_unknown_sites_is_told_by_site():
    text = "services: {shop/video: {demand: {'%s': 1, hamburg: 0}}}"
    pods = EDGE, CLOUD, pod("video")
    [line] = said_of(*pods, text=text % "berlin")
    assert line == "no edge node is at site 'berlin', so demand there is ignored (shop/video)"
    named = f"{text}\nlatency: {{matrix: {{berlin: {{munich: 30ms}}}}}}"
    assert said_of(*pods, text=named % "berlin") == []
    [line] = said_of(*pods, text=named % "berln")
    assert line.endswith("; did you mean berlin?")


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ((EDGE, CLOUD), []),
        (
            (EDGE,),
            [f"no node is cloud, so pods without capacity at the edge stay pending: {LABEL}=cloud"],
        ),
        ((CLOUD,), [f"no node is edge, so all pods go to the cloud: {LABEL}=edge"]),
        ((node("n1", "other"),), [f"no node is edge or cloud, so no pod is placed: {LABEL}=edge"]),
    ],
)
def test_a_tier_without_nodes_is_told_with_how_to_have_one(nodes, said):
    assert said_of(*nodes) == said


def loaded(text):
    return load(f"loadAware: {text}", "c.yaml").load_aware


def refused(text):
    with pytest.raises(DocumentError) as error:
        loaded(text)
    [line] = str(error.value).splitlines()
    return line


def test_it_is_off_by_default_and_a_password_has_no_place_in_it():
    assert load("", "c.yaml").load_aware.prometheus == ""
    assert loaded("{prometheus: ''}").prometheus == ""
    line = refused("{prometheus: 'http://kubedsm:secret@p:9090'}")
    assert "credentials belong in the Secret kubedsm-prometheus" in line
    assert "secret" not in line


@pytest.mark.parametrize(
    "url", ["http://prometheus:9090", "https://10.0.0.1/prometheus/", "http://[::1]:9090"]
)
def test_an_address_is_taken_as_it_is(url):
    assert loaded(f"{{prometheus: '{url}'}}").prometheus == url


@pytest.mark.parametrize(
    "url",
    ["prometheus:9090", "ftp://secret@p", "http://", "http://secret:99999999", "http://p?secret=1",
     "http://p/#secret", "http://p q/secret", "http://p\\u0000secret", "http://[secret", "7"],
)  # fmt: skip
def test_what_is_none_is_refused_and_nothing_of_it_repeated(url):
    line = refused(f'{{prometheus: "{url}"}}')
    assert line == (
        "c.yaml: loadAware.prometheus: not an address such as http://prometheus.monitoring:9090,"
        " or empty"
    )


def test_all_of_it_is_read_as_it_was_written_in_bytes_per_second_by_labels():
    text = (
        "{capacity: [{nodeSelector: {size: small}, net: 12.5MB/s}, {net: 1GiB/s, disk: 500MB/s}]}"
    )
    small, every = loaded(text).capacity
    assert small == NodeCapacity({"size": "small"}, net=12_500_000)
    assert every == NodeCapacity(net=2**30, disk=500_000_000)
    assert loaded("{capacity: {net: 1kB/s}}").capacity == (NodeCapacity(net=1000),)
    whole = load(
        "{loadAware: {prometheus: 'http://p', nodeLabel: n, period: 5s, window: 90s,"
        " capacity: [{nodeSelector: {a/b: c}, net: 12345B/s}], queries: {node: {disk: ''},"
        " pod: {cpu: vector(1)}}}, latency: {queries: {seconds: a, requests: b}}}",
        "c.yaml",
    )
    assert load(dump(whole), "again") == whole
    assert loaded("{window: 90s}").fill_window("rate(x[$window])") == "rate(x[90000ms])"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{period: 30}", "period: 30 is not a duration"),
        ("{period: 0s}", "period: 0s is not between 100ms and 1h"),
        ("{highUsage: 0}", "highUsage: 0 is not between 0.01 and 1"),
        ("{minLoadGain: 0}", "minLoadGain: 0 is not between 0.1 and 100"),
        ("{capacity: [{net: 125}]}", "capacity.0.net: 125 is not bytes a second, such as 125MB/s"),
        ("{capacity: [{net: 1B/s}, {net: -1B/s}]}", "capacity.1.net: '-1B/s' is not bytes"),
        ("{capacity: {disk: 0B/s}}", "capacity.disk: 0 bytes a second are no capacity"),
        ("{capacity: [{net: 1Mbit/s}]}", "capacity.0.net: '1Mbit/s' is not bytes a second"),
        ("{capacity: [{nodeSelector: {'a b': c}}]}", "nodeSelector.a b: 'a b' is not a label key"),
        ("{queries: {node: {cpu: 3}}}", "queries.node.cpu: 3 is not a PromQL query, or empty"),
        ("{queries: {nodes: {}}}", "queries.nodes: unknown key; did you mean node?"),
        (
            "{tokenFile: /x}",
            "tokenFile: no longer a key: credentials belong in the Secret kubedsm-prometheus",
        ),
        (
            "{caFile: /x}",
            "caFile: no longer a key: credentials belong in the Secret kubedsm-prometheus",
        ),
        ("{nodeLabel: [a-b]}", "nodeLabel: 'a-b' is not a label of Prometheus"),
    ],
)
def test_what_is_wrong_is_named(text, why):
    assert why in refused(text)


def test_all_mistakes_are_found_also_a_query_that_is_missing():
    with pytest.raises(DocumentError) as error:
        load("latency: {queries: {requests: sum(x)}}", "c.yaml")
    assert str(error.value) == (
        "c.yaml: latency.queries.seconds: empty: a response time needs both queries"
    )
    text = "loadAware: {capacity: [{net: 3, disk: 1B/s}, {disk: x}], prometheus: x, weight: -1}"
    places = {".".join(mistake.place) for mistake in list_mistakes(text, "c.yaml")}
    assert places == {
        f"loadAware.{key}" for key in ("capacity.0.net", "capacity.1.disk", "prometheus", "weight")
    }
