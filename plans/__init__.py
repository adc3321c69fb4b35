"""Plans whose every step is proved by observations, never by the response to a call alone.

Pure: ids and times go in, effects come out. Nothing here knows Kubernetes.
"""
