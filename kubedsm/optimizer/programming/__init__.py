"""Lexicographic integer programming: programmes as values, verified results, and certificates."""
