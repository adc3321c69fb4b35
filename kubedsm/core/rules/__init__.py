"""What may be: for each rule of scheduling, which nodes it rejects, and what could end that.

Nothing here prefers one workload to another.
"""
