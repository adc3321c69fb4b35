"""The whole cluster packed anew, for pods that nothing takes: what is moved, and what is placed.

Nothing here is asked in the ordinary course of things: that is what `placing` and `moving` do.
"""
