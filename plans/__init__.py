"""Plans whose every step is proved by what is observed, never by the reply to a call alone.

Pure: ids, vectors and times go in, effects come out. Nothing here knows Kubernetes.
"""
