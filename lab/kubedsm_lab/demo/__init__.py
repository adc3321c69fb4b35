"""`kubedsm demo`: one minute of an emulated cluster under load, shown in a live table.

Only the command imports this package.
"""
