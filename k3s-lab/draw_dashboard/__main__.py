"""PYTHONPATH=k3s-lab python -m draw_dashboard http://127.0.0.1:9090 dashboard.png."""

import io
import json
import math
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from matplotlib.figure import Figure
from PIL import Image
from prometheus_api_client.exceptions import PrometheusApiClientException
from requests import RequestException

from draw_dashboard.panels import FAINT, INK, KINDS, LARGE, write
from draw_dashboard.prometheus import Prometheus
from kubedsm.terminal.echo import echo

DASHBOARD = Path(__file__).parents[2] / "manifests/components/monitoring/dashboard.json"
#: pixels: of the picture, of one of Grafana's rows, between panels, and of the heading
WIDTH, ROW, BETWEEN, HEADING = 1560, 36, 6, 44
#: columns of Grafana's grid, pixels an inch, and colours of the PNG: lines on white need few
COLUMNS, DPI, COLOURS = 24, 100, 128


def draw(dashboard: dict[str, Any], prometheus: Prometheus, note: str) -> tuple[bytes, list[str]]:
    """Return the picture as PNG, and the titles of the panels without data."""
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"])
    height = HEADING + rows * ROW
    figure = Figure((WIDTH / DPI, height / DPI), dpi=DPI, facecolor="#f4f5f5")
    middle = 1 - HEADING / 2 / height
    figure.text(14 / WIDTH, middle, dashboard["title"], size=15, weight="bold", va="center")
    first, last = (datetime.fromtimestamp(prometheus.times[end], UTC) for end in (0, -1))
    when = f"{note}   {first:%Y-%m-%d %H:%M:%S} to {last:%H:%M:%S} UTC".strip()
    figure.text(1 - 14 / WIDTH, middle, when, size=9, color=FAINT, ha="right", va="center")
    empty = []
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        left, width = at["x"] * WIDTH / COLUMNS, at["w"] * WIDTH / COLUMNS - BETWEEN
        below = height - HEADING - (at["y"] + at["h"]) * ROW
        high = at["h"] * ROW - BETWEEN
        card = figure.add_axes((left / WIDTH, below / height, width / WIDTH, high / height))
        card.set(xlim=(0, 1), ylim=(0, 1), xticks=[], yticks=[])
        card.spines[:].set_color("#dfe1e4")
        if panel["type"] == "row":
            card.set_axis_off()
            write(card, 0.01, 0.5, panel["title"], size=11, weight="bold")
            continue
        write(card, 10 / width, 1 - 16 / high, panel["title"], weight="bold", color=INK)
        answer = [
            [curve for curve in given if not math.isnan(curve.last)]
            for given in prometheus.query_panel(panel)
        ]
        if any(answer):
            KINDS[panel["type"]](card, panel, answer, prometheus.times)
        else:
            empty.append(panel["title"])
            words = panel["fieldConfig"]["defaults"].get("noValue", "No data")
            write(card, 0.5, 0.4, words, size=LARGE / 2, color=FAINT, ha="center")
    drawn, file = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI)
    Image.open(drawn).convert("RGB").quantize(COLOURS).save(file, "PNG", optimize=True)
    return file.getvalue(), empty


@click.command()
@click.argument("url")
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--minutes", default=60.0, show_default=True, help="Length of the time until now.")
@click.option(
    "--scraped-every", default=15.0, show_default=True, help="Seconds between two scrapes."
)
@click.option(
    "--choose",
    "chosen",
    multiple=True,
    metavar="VARIABLE=REGEX",
    help="Filter by a variable of the dashboard.  [default: all]",
)
@click.option("--note", default="", help="Further text of the heading.")
@click.option(
    "--dashboard",
    default=DASHBOARD,
    type=click.Path(exists=True, path_type=Path),
    help="JSON file.",
)
def main(
    url: str, out: Path, minutes: float, scraped_every: float, chosen: tuple[str, ...], note: str,
    dashboard: Path,
) -> None:  # fmt: skip
    """Draw a dashboard from the Prometheus at URL into the PNG file OUT; list empty panels."""
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
