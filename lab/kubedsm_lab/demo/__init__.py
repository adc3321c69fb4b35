"""A minute to watch: an emulated cluster, the scheduler, load, and a live table.

Nothing here is imported by anything but its command.
"""
