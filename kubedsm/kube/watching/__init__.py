"""Reflectors: objects of a kind, followed by list and watch."""
