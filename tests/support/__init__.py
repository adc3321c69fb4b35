"""Helpers shared by test modules, which never import from one another."""
