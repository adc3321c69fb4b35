"""Whom to ask for measured load, and what: read, written again, and refused in one line."""

import pytest

from kubedsm.config.documents import DocumentError
from kubedsm.config.load_aware import NodeCapacity
from kubedsm.config.settings import dump, list_mistakes, load


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
