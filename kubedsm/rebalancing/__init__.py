"""Periodic suggester, capacity packing, and the measured effect of migrations."""
