"""A burst of pods, and what becomes of them under one scheduler after the other.

On a real cluster, or on an emulated one with each scheduler a process of its own. What is said of
them comes from a watch and from the API, and nothing from the schedulers.
"""
