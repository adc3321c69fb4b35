"""Lexicographic integer programming with verified solver results and optimality certificates."""
