"""Dashboard in the browser or terminal: rows of the cluster, recording, update stream,
explanations.
"""
