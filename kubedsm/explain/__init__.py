"""Explanations: one typed value, made of recorded decisions and rendered for every reader."""
