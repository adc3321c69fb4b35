"""Conversion of the API's JSON to values of `model`, with precise errors, and without requests."""
