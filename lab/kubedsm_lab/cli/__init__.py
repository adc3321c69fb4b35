"""Commands of the laboratory, registered as entry points of the group `kubedsm.commands`."""
