"""Picture of a Grafana dashboard, drawn from a Prometheus without Grafana.

Layout and wording of numbers follow Grafana for the kinds of panels in `panels`; a dashboard with
another kind is refused.
"""
