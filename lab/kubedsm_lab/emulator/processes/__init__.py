"""Pods that are real processes of `loadgen serve`, proxies to them, and what they are seen to use.

What is measured here is measured on this machine; only the network between tiers is made up.
"""
