"""Scenarios in virtual time on the emulated cluster: schedulers side by side, and measured."""
