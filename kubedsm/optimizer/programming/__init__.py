"""Integer programmes as values, what a solver says of one, and goals that come one after the other.

What a programme means is said where it is made. Who solves it is handed in: no solver is known
here, and without one there is no answer.
"""
