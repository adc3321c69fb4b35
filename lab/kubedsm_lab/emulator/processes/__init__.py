"""Pods as processes of `loadgen serve`, proxies of Services, and measured consumption.

All is measured on this machine; only the network between tiers is simulated.
"""
