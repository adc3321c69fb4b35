"""Migrations of running pods: which are worth their disruption, and in which order."""
