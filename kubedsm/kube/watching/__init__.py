"""All objects of a kind, followed by list and watch.

What they mean to a scheduler is not known here.
"""
