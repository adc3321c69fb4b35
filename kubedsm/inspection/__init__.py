"""Inspection of an installation from outside: cluster state, checks, and an overview."""
