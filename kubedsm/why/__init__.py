"""Decisions remembered and explained: entries, their record, answers, and how to ask for them.

Only reads: nothing here decides, or changes what was decided.
"""
