"""KubeDSM beside the schedulers of the papers: one experiment after the other, one page of all.

What is played, and what is measured of it, is in `replay` and `bench`.
"""
