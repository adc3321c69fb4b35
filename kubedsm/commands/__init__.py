"""The commands, one family a file: where the parts are wired together."""
