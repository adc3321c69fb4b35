"""Explanations of decisions: records, answers to "why?", and how to request them."""
