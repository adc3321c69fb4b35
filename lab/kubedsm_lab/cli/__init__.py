"""Commands that the lab adds to `kubedsm`."""
