"""What should be: promises, the objective, fragmentation, and what a change gains.

Nothing here knows which changes are possible.
"""
