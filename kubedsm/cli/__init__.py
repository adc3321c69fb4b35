"""Command line of KubeDSM: one typed function per command, and the values and tables it prints.

Modules that click reads for `--help` and completion import little: see `main.py`. A command imports
its implementation when it runs.
"""
