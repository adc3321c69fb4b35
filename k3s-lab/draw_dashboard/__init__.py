"""A Grafana dashboard as a picture, from a Prometheus, where there is no Grafana.

As Grafana lays it out and words it, as far as our dashboard uses that: the kinds of panels in
`panels`. What it does not know it says, and draws nothing.
"""
