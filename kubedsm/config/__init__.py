"""Configuration document: defaults, validation, schema."""
