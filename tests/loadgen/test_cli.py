"""The command as a user meets it: exit codes, one line on stderr, nothing else on stdout."""

import json

import pytest

from loadgen.cli import main
from loadgen.generators import normal
from loadgen.scenario import load, loads

EXAMPLES = " such as 500ms, 90s or 2m"
DIFFERENT = " are not different names with commas between"
SEE = ". See loadgen generate normal --help."


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
        ([], 2, "Missing command. See loadgen --help."),
        (["generate"], 2, "Missing command. See loadgen generate --help."),
        (["bogus"], 2, "No such command 'bogus'. See loadgen --help."),
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
            "/absent/load.json: No such file or directory",
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
