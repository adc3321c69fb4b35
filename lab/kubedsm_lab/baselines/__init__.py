"""Baseline schedulers that KubeDSM is compared with, and the registry of all contenders."""
