"""Lexicographic integer programming: programmes as values, verified solver claims, certificates."""
