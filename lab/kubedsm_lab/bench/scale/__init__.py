"""Cost of everything at one size of the cluster."""
