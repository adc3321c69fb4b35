"""Half an hour on a cluster with many tenants and an odd one, and the verdict.

Everything it knows of the scheduler it knows from outside.
"""
