"""The store, and what a real API server does with each write.

No time passes here, and no controller acts.
"""
