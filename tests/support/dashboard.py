"""Grafana dashboard of the monitoring component: its panels and queries."""

import json

from support.manifests import MONITORING

DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
#: those that ask for something, and are no mere headings
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
VARIABLES = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}


def queries(panel, **variables):
    """Yield each query of a panel with Grafana's variables filled in, `.*` by default."""
    filled = {**dict.fromkeys(VARIABLES, ".*"), **variables}
    for target in panel["targets"]:
        query = target["expr"]
        for name, value in filled.items():
            query = query.replace(f"${name}", value)
        yield query
