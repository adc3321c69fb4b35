"""`kubedsm config`: check, show, schema; and the configuration of the cluster for commands."""

import json

import orjson
import pytest
import yaml
from click.testing import CliRunner

from kubedsm.cli.cluster import read_configuration
from kubedsm.cli.config import config
from kubedsm.cli.configuration_report import print_report
from kubedsm.config.origins import Origins
from kubedsm.config.settings import Configuration, load
from kubedsm.explain.facts import QosTargetFacts, TierTimes
from kubedsm.kube.client.port import ObjectName
from kubedsm_lab.emulator.api.resources import CONFIGMAPS, NAMESPACES
from kubedsm_lab.emulator.front import EmulatedFront
from support.dumps import dump_of, node, replica
from support.rights import ADMIN_TOKEN, Right, install
from support.worlds import CLOUD, emulated

TEXT = """
services:
  "*": {qos: 0.8}
  shop/*: {weight: 2}
tenants: {maxQos: 0.9}
migration: {mode: recreate}
"""


def ran(*arguments):
    done = CliRunner().invoke(config, list(map(str, arguments)), env={"COLUMNS": "400"})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done


@pytest.fixture
def given(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(TEXT)
    return path


def test_check_says_ok_or_each_mistake(given):
    done = ran("check", given)
    assert (done.output, done.exit_code) == ("ok\n", 0)
    given.write_text('batch: {size: 0}\nsuggester: {mode: "on"}\n')
    done = ran("check", given)
    assert done.exit_code == 1
    assert done.output.splitlines() == [
        f"{given}: batch.size: 0 is not between 1 and 10000",
        f"{given}: suggester.mode: 'on' is not apply, suggest or off",
    ]
    done = ran("check", given, "-o", "json")
    said = json.loads(done.output)
    assert (done.exit_code, said["valid"]) == (1, False)
    assert [mistake["key"] for mistake in said["mistakes"]] == ["batch.size", "suggester.mode"]


def test_show_prints_a_document_that_means_the_same_and_where_values_come_from(given):
    shown = load(ran("show", given, "-o", "yaml").output, "shown")
    again = load(ran("show", "-o", "yaml").output, "defaults")
    assert Origins(again, "", {}).effective == Origins(Configuration(), "", {}).effective
    assert shown.migration == load(TEXT, "x").migration
    assert yaml.safe_load(ran("show", given, "-o", "yaml").output)["services"] == {
        "*": {"qos": 0.8, "weight": 1.0},
        "shop/*": {"weight": 2.0},
    }
    said = json.loads(ran("show", given, "-o", "json").output)
    assert said["from"]["migration.mode"] == f"{given}:6"
    assert said["from"]["batch.idle"] == "default"
    text = ran("show", given).output
    assert "services.shop/*.weight" in text
    assert " 1000000 " in text
    assert f"{given}:4" in text


def of(workload, **annotations):
    named = {f"kubedsm.io/{key}": value for key, value in annotations.items()}
    return replica(f"{workload}-1", workload, "e1", annotations=named)


def test_show_says_of_the_workloads_of_a_dump_what_they_are_promised(given, tmp_path):
    dump = tmp_path / "dump.json"
    pods = [of("cart", qos="1", migration="off"), of("video", qos="0.1"), of("other")]
    dump.write_bytes(dump_of(node("e1", "edge"), *pods))
    said = orjson.loads(ran("show", given, "--from", dump, "-o", "json").stdout)
    cart, other, video = said["workloads"]
    annotation = "annotation kubedsm.io/qos of"
    assert cart["qos"] == {"value": 0.9, "from": f"{annotation} shop/cart-1, at most 0.9"}
    assert cart["migration"]["value"] == "off"
    assert cart["migration"]["from"] == "annotation kubedsm.io/migration of shop/cart-1"
    assert video["qos"] == {"value": 0.1, "from": f"{annotation} shop/video-1"}
    assert other == {
        "workload": "shop/other",
        "qos": {"value": 0.8, "from": f"services.*, {given}:3"},
        "weight": {"value": 2.0, "from": f"services.shop/*, {given}:4"},
        "migration": {"value": "recreate", "from": f"{given}:6"},
    }
    assert "shop/video" in ran("show", given, "--from", dump).output


def test_show_says_where_rates_come_from(tmp_path):
    given, dump = tmp_path / "config.yaml", tmp_path / "dump.json"
    given.write_text("objective: {weight: traffic}\nservices:\n  shop/cart: {rate: 30}\n")

    pods = [of("cart", rate="7"), of("video", rate="10"), of("other", rate="much")]
    dump.write_bytes(dump_of(node("e1", "edge"), *pods))
    said = orjson.loads(ran("show", given, "--from", dump, "-o", "json").stdout)
    assert [each["weight"] for each in said["workloads"]] == [
        {"value": 1.5, "from": f"default; traffic: services.shop/cart, {given}:3"},
        {"value": 1.0, "from": "default; traffic: the same for each pod"},
        {"value": 0.5, "from": "default; traffic: annotation kubedsm.io/rate of shop/video-1"},
    ]


def test_show_leaves_out_response_times_that_nobody_knows(capsys):
    shown = Origins(Configuration(), "", {})
    plain = QosTargetFacts("shop/web", 0.5, 1.0)
    timed = QosTargetFacts("shop/api", 1.0, 1.0, TierTimes(0.05), 0.06, TierTimes(0.05, 0.08))
    print_report(shown, [], [plain], "text", settings=False)
    said = capsys.readouterr().out
    assert "shop/web" in said
    assert "latency" not in said
    print_report(shown, [], [plain, timed], "text", settings=False)
    assert "50ms" in capsys.readouterr().out


def test_schema_is_json_and_a_scheduler_that_does_not_answer_is_told():
    done = ran("show", "--running", "--server", "http://127.0.0.1:1")
    assert done.exit_code == 1
    assert done.output == "Error: no running scheduler responds at http://127.0.0.1:1\n"
    assert json.loads(ran("schema").output)["title"] == "KubeDSMConfiguration"


def config_map(world, text):
    made = {"metadata": {"name": "kubedsm"}, "data": {"config.yaml": text}}
    world.api.create(CONFIGMAPS, made, namespace="kubedsm")


async def test_the_configmap_counts_and_without_one_the_defaults(capsys):
    async with emulated(CLOUD) as world:
        front = EmulatedFront(world.cluster.routes, world.clock)
        assert await read_configuration(front, ObjectName()) == Configuration()
        absent = "ConfigMap kubedsm/kubedsm, config.yaml: not found; the defaults apply"
        assert absent in capsys.readouterr().err
        world.api.create(NAMESPACES, {"metadata": {"name": "kubedsm"}})
        config_map(world, "services: {shop/cart: {qos: 0}}")
        assert (await read_configuration(front, ObjectName())).services["shop/cart"].qos == 0
        assert not capsys.readouterr().err


async def test_without_the_right_to_read_it_the_defaults_apply_and_that_is_said(capsys):
    async with emulated(CLOUD, admin_token=ADMIN_TOKEN) as world:
        token = install(world.cluster, Right("Role", "", "configmaps", "get"))
        config_map(world, "services: {shop/cart: {qos: 0}}")
        front = EmulatedFront(world.cluster.routes, world.clock, token=token)
        assert await read_configuration(front, ObjectName()) == Configuration()
    assert "the defaults apply" in capsys.readouterr().err
