"""The commands: what a user types, and the tables that answer.

No decision is taken here, and nothing here is imported by what runs.
"""
