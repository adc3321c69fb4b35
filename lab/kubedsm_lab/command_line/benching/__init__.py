"""What the commands `kubedsm bench ...` are called with."""
