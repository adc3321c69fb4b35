"""Python parts of `k3s-lab/lab emulated`: creation of objects, check of a run, configuration."""
