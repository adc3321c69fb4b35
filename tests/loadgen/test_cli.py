"""The command as a user meets it: exit codes, one line on stderr, nothing else on stdout."""

import inspect
import json
import socket

import attrs
import pytest

from loadgen import recovery, sending, server
from loadgen.cli import loadgen, main
from loadgen.driver import Clients, Limits
from loadgen.generators import PAPER_REQUESTS, Wavy, normal, wavy
from loadgen.hpa import Plan
from loadgen.scenario import load, loads
from loadgen.work import Work

EXAMPLES = " such as 500ms, 90s or 2m"
DIFFERENT = " are not different names with commas between"
SEE = " (see loadgen generate normal --help)"


def run(*arguments):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code


def test_generate_prints_the_scenario(capsys):
    assert run("generate", "normal", "1.5", "0.4", "--seed", "3") == 0
    out, err = capsys.readouterr()
    assert loads(out) == normal(1.5, 0.4, seed=3)
    assert err == ""


def test_generate_writes_a_file_with_everything_asked_for(tmp_path, capsys):
    path = tmp_path / "load.json"
    code = run(
        *("generate", "normal", "1.2", "0.1", "--cycles", "3", "--cycle-length", "1.5m"),
        *("--seed", "9", "--services", "cart,video", "--endpoint", "http://{service}.shop/ping"),
        *("-o", str(path)),
    )
    assert code == 0
    assert capsys.readouterr().out == ""
    scenario = load(path)
    assert scenario.services == ("cart", "video")
    assert scenario.duration == 270
    assert scenario.apis[0].endpoint == "http://cart.shop/ping"


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "load.json"
    path.write_text(
        json.dumps(
            {
                "apis": [
                    {
                        "name": name,
                        "endpoint": "http://x/",
                        "intervals": [
                            {"api_call_period": period, "cycle_length": length}
                            for period, length in intervals
                        ],
                    }
                    for name, intervals in {
                        "cart": [(100, 30_000), (50, 60_000)],
                        "video": [(40, 60_000)],
                    }.items()
                ]
            }
        ),
        encoding="utf-8",
    )
    return path


def test_show_as_json_cuts_where_any_rate_may_change(path, capsys):
    assert run("show", str(path), "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "services": ["cart", "video"],
        "duration": 90.0,
        "cycles": [
            {"start": 0.0, "end": 30.0, "rates": {"cart": 10.0, "video": 25.0}},
            {"start": 30.0, "end": 60.0, "rates": {"cart": 20.0, "video": 25.0}},
            {"start": 60.0, "end": 90.0, "rates": {"cart": 20.0, "video": 0.0}},
        ],
    }


def test_show_as_a_table(path, capsys):
    assert run("show", str(path)) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line[:1] in "│┃"]
    figures = [[cell for cell in row if cell not in "│┃"] for row in rows]
    assert figures[0] == ["cycle", "from", "s", "to", "s", "cart", "video"]
    assert figures[1:] == [
        ["1", "0", "30", "10", "25"],
        ["2", "30", "60", "20", "25"],
        ["3", "60", "90", "20", "0"],
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["bogus"], 2, "No such command 'bogus' (see loadgen --help)"),
        (
            ["generate", "normal", "1"],
            2,
            f"Missing argument 'SIGMA'{SEE}",
        ),
        (
            ["generate", "normal", "1", "1", "--cycle-length", "90"],
            2,
            f"Invalid value for '--cycle-length': '90' is not a duration,{EXAMPLES}{SEE}",
        ),
        (
            ["generate", "normal", "1", "1", "--services", "x,x"],
            2,
            f"Invalid value for '--services': 'x,x'{DIFFERENT}{SEE}",
        ),
        (
            ["generate", "normal", "1", "1", "--services", "a,b,c,d,e"],
            2,
            f"Invalid value for '--services': 5 names for the paper's 4 services{SEE}",
        ),
        (["generate", "normal", "nan", "1"], 1, "mean: nan is not a finite number from 0 on"),
        (
            ["generate", "normal", "1", "1", "--cycle-length", "0s"],
            1,
            "cycle length: 0 seconds are not above 0",
        ),
        (["show", "/absent/load.json"], 1, "/absent/load.json: No such file or directory"),
        (
            ["generate", "normal", "1", "1", "-o", "/absent/load.json"],
            1,
            "/absent/load.json: there is no folder /absent",
        ),
    ],
)
def test_errors_are_one_line(arguments, code, line, capsys):
    assert run(*arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"loadgen: error: {line}\n"


def test_help_is_no_error(capsys):
    assert run("--help") == 0
    assert "generate" in capsys.readouterr().out


def test_generate_wavy_prints_the_scenario(capsys):
    code = run(
        *("generate", "wavy", "0.5", "2", "--cycles", "8", "--cycle-length", "30s"),
        *("--max-step", "3", "--edge", "10,8.5", "--cluster", "20,40", "--services", "x,y,z"),
        *("--endpoint", "http://{service}.shop/"),
    )
    assert code == 0
    assert loads(capsys.readouterr().out) == wavy(
        Wavy(
            0.5,
            2,
            cycles=8,
            cycle_seconds=30,
            max_step=3,
            edge_total={"cpu": 10, "memory": 8.5e9},
            cluster_total={"cpu": 20, "memory": 40e9},
            requests=dict(zip("xyz", PAPER_REQUESTS.values(), strict=False)),
            endpoint="http://{service}.shop/",
        )
    )


def test_generate_wavy_defaults_to_the_papers_cluster(capsys):
    assert run("generate", "wavy", "0.75", "4") == 0
    assert loads(capsys.readouterr().out) == wavy(Wavy(0.75, 4))


NO_URL = " is not a URL such as http://cart.shop/"
RUN = " (see loadgen run --help)"
WAVY = " (see loadgen generate wavy --help)"


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["generate", "wavy", "1", "5"], 1, "services: 5 of 4 services cannot have a wave"),
        (
            ["generate", "wavy", "1", "1", "--edge", "4"],
            2,
            f"Invalid value for '--edge': '4' is not cores and GB, such as 13,11{WAVY}",
        ),
        (["run", "/absent/load.json"], 1, "/absent/load.json: No such file or directory"),
        (
            ["run", "{path}", "--endpoint", "basket=http://x/"],
            2,
            f"Invalid value for '--endpoint': no service 'basket' among cart, video{RUN}",
        ),
        (
            ["run", "{path}", "--url", "ftp://x/"],
            2,
            f"Invalid value for '--endpoint' / '--url': 'ftp://x/'{NO_URL}{RUN}",
        ),
        (
            ["run", "{path}", "--timeout", "0s"],
            2,
            f"Invalid value for '--timeout': 0 seconds are too few{RUN}",
        ),
    ],
)
def test_errors_of_the_newer_commands_are_one_line(arguments, code, line, path, capsys):
    assert run(*(argument.replace("{path}", str(path)) for argument in arguments)) == code
    assert capsys.readouterr() == ("", f"loadgen: error: {line}\n")


def scenario_of(endpoint="http://127.0.0.1:1/", period=10, length=100):
    interval = {"api_call_period": period, "cycle_length": length}
    return json.dumps({"apis": [{"name": "a", "endpoint": endpoint, "intervals": [interval]}]})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("apis: []", "not JSON: Expecting value: line 1 column 1 (char 0)"),
        ('{"apis": []}', "apis: empty"),
        (
            scenario_of(period=-5),
            "apis[0].intervals[0].api_call_period: -5 is not a number of milliseconds above 0",
        ),
        (scenario_of(period=101), "no request is in it, every interval is silent"),
        (
            scenario_of("localhost:80"),
            f"endpoint of a: 'localhost:80'{NO_URL}",
        ),
        (scenario_of("http://"), f"endpoint of a: 'http://'{NO_URL}"),
        (scenario_of("http://a b/"), f"endpoint of a: 'http://a b/'{NO_URL}"),
        (
            scenario_of("http://.."),
            "endpoint of a: 'http://..' is not a URL: a part of its host name is empty or too long",
        ),
        (
            scenario_of("http://x:99999/"),
            "endpoint of a: 'http://x:99999/' is not a URL: Port out of range 0-65535",
        ),
    ],
)
def test_a_broken_scenario_is_refused_in_one_line(text, reason, tmp_path, capsys):
    path = tmp_path / "load.json"
    path.write_text(text, encoding="utf-8")
    assert run("run", str(path)) == 1
    assert capsys.readouterr() == ("", f"loadgen: error: {path}: {reason}\n")


@pytest.mark.http
def test_endpoints_that_refuse_connections_are_one_line(path, capsys):
    refused = "http://127.0.0.1:1"
    rows = path.with_suffix(".csv")
    code = run(
        *("run", str(path), "--endpoint", refused + "/{service}", "--url", f"cart={refused}"),
        *("--csv", str(rows)),
    )
    assert code == 1
    out, err = capsys.readouterr()
    cart = f"cart at {refused}: connection refused"
    video = f"video at {refused}/video: connection refused"
    assert (out, err) == ("", f"loadgen: error: nothing listens for {cart}, {video}\n")
    assert not rows.exists()


@pytest.mark.http
def test_a_file_that_cannot_be_written_is_one_line(path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        assert run("run", str(path), "--url", url, "--csv", "/absent/rows.csv") == 1
    assert capsys.readouterr() == (
        "",
        "loadgen: error: /absent/rows.csv: there is no folder /absent\n",
    )


@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [
        ([], 0, "Usage: loadgen [OPTIONS] COMMAND", ""),
        (["generate"], 0, "Usage: loadgen generate [OPTIONS] COMMAND", ""),
        (["--version"], 0, "loadgen, version 0.", ""),
        (["rnu"], 2, "", "loadgen: error: No such command 'rnu'. Did you mean run?"),
    ],
)
def test_who_has_no_command_yet_is_told_what_there_is(arguments, code, out, err, capsys):
    assert run(*arguments) == code
    said = capsys.readouterr()
    assert said.out.startswith(out)
    assert said.err.startswith(err)


def test_what_is_done_takes_what_can_be_said_with_the_same_defaults():
    options = {}
    for name, does, *values in (
        ("run", sending.run),
        ("closed", sending.closed, Clients),
        ("hpa", sending.hpa, Plan),
        ("serve", server.serve, Work),
    ):
        command = loadgen.get_command(None, name)
        options[name] = {each.name: each.default for each in command.params}
        taken = {*inspect.signature(does).parameters} - {"given"}
        taken |= {field.name for value in values for field in attrs.fields(value)}
        assert set(options[name]) == taken - {"find", "sla"}, name
    limits, sla = Limits(), recovery.Sla()
    assert options["run"]["max_connections"] == limits.max_connections
    assert options["run"]["timeout"] == f"{limits.timeout:g}s"
    hpa = options["hpa"]
    assert hpa["find_seconds"] == f"{recovery.FIND_SECONDS:g}s"
    assert hpa["hold_seconds"] == f"{recovery.HOLD_SECONDS:g}s"
    assert hpa["window_seconds"] == f"{recovery.WINDOW_SECONDS:g}s"
    assert (hpa["p99"], hpa["errors"]) == (f"{sla.p99:g}s", 100 * sla.errors)
