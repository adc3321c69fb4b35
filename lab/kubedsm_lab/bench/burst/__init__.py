"""Burst of pods under one scheduler after the other, observed by a watch and by the API."""
