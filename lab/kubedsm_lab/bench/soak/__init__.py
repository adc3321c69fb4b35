"""Soak test: ordinary tenants next to an odd one, while faults disturb the schedulers."""
