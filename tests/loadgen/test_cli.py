"""The command as a user meets it: exit codes, one line on stderr, nothing else on stdout."""

import json
import socket

import pytest

from loadgen.cli import main
from loadgen.generators import PAPER_REQUESTS, normal, wavy
from loadgen.scenario import load, loads

EXAMPLES = " such as 500ms, 90s or 2m"
DIFFERENT = " are not different names with commas between"
NO_URL = " is not a URL such as http://cart.shop/"
URL = "http://127.0.0.1:1/"


def run(*arguments):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code


def test_generate_prints_the_scenario_or_writes_a_file_with_everything_asked_for(capsys, tmp_path):
    assert run("generate", "normal", "1.5", "0.4", "--seed", "3") == 0
    out, err = capsys.readouterr()
    assert loads(out) == normal(1.5, 0.4, seed=3)
    assert err == ""
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


def test_show_cuts_where_any_rate_may_change(path, capsys):
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
    ("command", "arguments", "why"),
    [
        ("generate normal", "1", "Missing argument 'SIGMA'"),
        ("generate normal", "1 1 --cycle-length 90", f"'90' is not a duration,{EXAMPLES}"),
        ("generate normal", "1 1 --services x,x", f"'x,x'{DIFFERENT}"),
        ("generate normal", "1 1 --services a,b,c,d,e", "5 names for the paper's 4 services"),
        ("generate wavy", "1 1 --edge 4", "'4' is not cores and GB, such as 13,11"),
        ("run", "{path} --endpoint b=http://x/", "no service 'b' among cart, video"),
        ("run", "{path} --url ftp://x/", f"'ftp://x/'{NO_URL}"),
        ("run", "{path} --timeout 0s", "0 seconds are too few"),
        ("hpa", "", "Missing option '--url'"),
        ("hpa", "--url cart", f"'cart'{NO_URL}"),
        ("hpa", f"--url {URL} --window 0s", "0 seconds are too few"),
        ("serve", "--memory much", "'much' is not a size, such as 500B, 10KB or 1.5MB"),
        ("serve", "--call cart", f"'cart'{NO_URL}"),
        ("serve", "--cpu-limit half", "'half' are not cores, such as 0.5 or 500m"),
    ],
)
def test_a_wrong_argument_is_one_line_with_the_help_to_see(command, arguments, why, path, capsys):
    assert run(*command.split(), *arguments.format(path=path).split()) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("loadgen: error: ")
    assert err.endswith(f"{why} (see loadgen {command} --help)\n")


@pytest.mark.parametrize(
    ("typed", "code", "line"),
    [
        ("rnu", 2, "No such command 'rnu'. Did you mean run? (see loadgen --help)"),
        ("show /absent/load.json", 1, "/absent/load.json: No such file or directory"),
        (
            "generate normal 1 1 -o /absent/load.json",
            1,
            "/absent/load.json: there is no folder /absent",
        ),
        ("run /absent/load.json", 1, "/absent/load.json: No such file or directory"),
        (f"closed 2 --url {URL}", 1, f"nothing listens at {URL}: connection refused"),
        (f"hpa --url {URL}", 1, f"nothing listens at {URL}: connection refused"),
        ("serve --memory 999999999GB", 1, "out of memory"),
        (
            "serve --host 192.0.2.1",
            1,
            "cannot listen on 192.0.2.1:8080: Cannot assign requested address",
        ),
    ],
)
def test_errors_are_one_line(typed, code, line, capsys):
    assert run(*typed.split()) == code
    assert capsys.readouterr() == ("", f"loadgen: error: {line}\n")


def test_generate_wavy_prints_the_scenario_and_defaults_to_the_papers_cluster(capsys):
    code = run(
        *("generate", "wavy", "0.5", "2", "--cycles", "8", "--cycle-length", "30s"),
        *("--max-step", "3", "--edge", "10,8.5", "--cluster", "20,40", "--services", "x,y,z"),
        *("--endpoint", "http://{service}.shop/"),
    )
    assert code == 0
    assert loads(capsys.readouterr().out) == wavy(
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
    assert run("generate", "wavy", "0.75", "4") == 0
    assert loads(capsys.readouterr().out) == wavy(0.75, 4)


def scenario_of(endpoint="http://127.0.0.1:1/", period=10, length=100):
    interval = {"api_call_period": period, "cycle_length": length}
    return json.dumps({"apis": [{"name": "a", "endpoint": endpoint, "intervals": [interval]}]})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (scenario_of(period=101), "no request is in it, every interval is silent"),
        (scenario_of("localhost:80"), f"endpoint of a: 'localhost:80'{NO_URL}"),
        (scenario_of("http://"), f"endpoint of a: 'http://'{NO_URL}"),
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
def test_endpoints_and_files_that_cannot_be_used_are_one_line(path, capsys):
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
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        assert run("run", str(path), "--url", url, "--csv", "/absent/rows.csv") == 1
    assert capsys.readouterr() == (
        "",
        "loadgen: error: /absent/rows.csv: there is no folder /absent\n",
    )
