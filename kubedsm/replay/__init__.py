"""Scenarios in virtual time, several policies side by side, with tables, pictures and measures.

What is measured here never changes how it is decided.
"""
