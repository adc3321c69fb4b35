"""Reflectors (client-go's informers): objects of a kind, followed by list and watch."""
