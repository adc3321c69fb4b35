"""Ratios: what runs, timed beside a form of it that can be trusted.

The literal forms live here because the ratios are taken against them wherever the wheel is.
"""
