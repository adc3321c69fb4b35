"""Placement manager: binds and migrations carried out as plans, every step verified."""
