"""PYTHONPATH=k3s-lab python -m draw_dashboard http://127.0.0.1:9090 dashboard.png."""

import json
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from prometheus_api_client.exceptions import PrometheusApiClientException
from requests import RequestException

from draw_dashboard.asking import Prometheus, Values
from draw_dashboard.panels import Answer, Panel, bargauge, stat, table, timeseries
from draw_dashboard.sheet import FAINT, Box, Sheet
from kubedsm.terminal.echo import echo

DASHBOARD = Path(__file__).parents[2] / "manifests/components/monitoring/dashboard.json"
#: how each kind is drawn, and the room around it: at the sides, above and below
KINDS: dict[str, tuple[Callable[[Sheet, Box, Panel, Answer, Values], None], int, int]] = {
    "stat": (stat, 0, 0),
    "timeseries": (timeseries, 10, 32),
    "bargauge": (bargauge, 14, 36),
    "table": (table, 10, 32),
}
#: pixels: of the sheet, of one of Grafana's rows, between panels, and of the heading
WIDTH, ROW, BETWEEN, HEADING = 1560, 36, 6, 44
COLUMNS = 24


def draw(dashboard: dict[str, Any], prometheus: Prometheus, note: str) -> tuple[bytes, list[str]]:
    """The picture, PNG, and the titles of panels to which Prometheus gives nothing."""
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"])
    sheet = Sheet(WIDTH, HEADING + rows * ROW)
    sheet.text(14, HEADING / 2, dashboard["title"], 20, weight="bold")
    first, last = (datetime.fromtimestamp(prometheus.times[end], UTC) for end in (0, -1))
    when = f"{first:%Y-%m-%d %H:%M:%S} to {last:%H:%M:%S} UTC"
    sheet.text(WIDTH - 14, HEADING / 2, f"{note}   {when}".strip(), 13, colour=FAINT, align="right")
    empty = []
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        column = WIDTH / COLUMNS
        box = Box(at["x"] * column, HEADING + at["y"] * ROW, at["w"] * column, at["h"] * ROW)
        if panel["type"] == "row":
            sheet.text(box.x + 14, box.y + box.h / 2, panel["title"], 15, weight="bold")
            continue
        answer = [
            [curve for curve in given if not math.isnan(curve.last)]
            for given in prometheus.answers(panel)
        ]
        if not any(answer):
            empty.append(panel["title"])
        box = box.inside(*[BETWEEN / 2] * 4)
        kind, aside, above = KINDS[panel["type"]]
        if above:
            sheet.rectangle(box, "white", "#dfe1e4")
            sheet.text(box.x + 10, box.y + 16, panel["title"], weight="bold", within=box.w - 20)
        kind(sheet, box.inside(aside, above, aside, aside), panel, answer, prometheus.times)
    return sheet.png(), empty


@click.command()
@click.argument("url")
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--minutes", default=60.0, show_default=True, help="How much is shown, until now.")
@click.option(
    "--scraped-every", default=15.0, show_default=True, help="Seconds between two scrapes."
)
@click.option(
    "--choose",
    "chosen",
    multiple=True,
    metavar="VARIABLE=REGEX",
    help="What a variable of the dashboard lets through.  [default: all]",
)
@click.option("--note", default="", help="What else the heading is to say.")
@click.option(
    "--dashboard", default=DASHBOARD, type=click.Path(exists=True, path_type=Path), help="Its JSON."
)
def main(
    url: str, out: Path, minutes: float, scraped_every: float, chosen: tuple[str, ...], note: str,
    dashboard: Path,
) -> None:  # fmt: skip
    """Draw a dashboard from the Prometheus at URL into the PNG file OUT; say what is empty."""
    now = time.time()
    given = json.loads(dashboard.read_text())
    choices = {variable["name"]: ".*" for variable in given["templating"]["list"]}
    for choice in chosen:
        name, equals, value = choice.partition("=")
        if not equals or name not in choices:
            raise click.BadParameter(
                f"{choice}: not one of {', '.join(choices)}, =, and what it is"
            )
        choices[name] = value
    if unknown := {panel["type"] for panel in given["panels"]} - {*KINDS, "row"}:
        raise click.ClickException(f"{dashboard}: cannot draw {', '.join(sorted(unknown))}")
    try:
        prometheus = Prometheus(url, now - minutes * 60, now, scraped_every, choices)
        picture, empty = draw(given, prometheus, note)
        out.write_bytes(picture)
    except (RequestException, PrometheusApiClientException) as error:
        raise click.ClickException(f"{url}: {error}") from None
    except OSError as error:
        raise click.ClickException(str(error)) from None
    for title in empty:
        echo(f"no data: {title}")


if __name__ == "__main__":
    main()
