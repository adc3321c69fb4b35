"""Comparison of KubeDSM with the schedulers of the papers: several experiments, one page.

The experiments and their measurements are in `replay` and `bench`.
"""
