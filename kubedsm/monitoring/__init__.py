"""How the scheduler is doing: what is counted and measured, whether it is well, and where to ask.

Only reads: nothing here changes what is decided or done. The one room that knows prometheus_client.
"""
