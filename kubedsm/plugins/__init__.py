"""Filter and Score plugins under kube-scheduler's names, in vectorised form."""
