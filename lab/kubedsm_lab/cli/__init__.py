"""Command-line interface that the laboratory distribution adds to `kubedsm`."""
