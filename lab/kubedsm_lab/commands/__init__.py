"""Lab commands: what each does."""
