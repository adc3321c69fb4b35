"""Pods as local processes of `loadgen serve`, with Service proxies and measured consumption.

All is measured on this machine; only the network between tiers is simulated.
"""
