"""Decisions remembered and explained: entries, their record, answers, and who asks for them.

Only reads: nothing here decides, or changes what was decided.
"""
