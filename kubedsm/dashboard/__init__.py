"""Dashboard page: rows of the cluster, recording, stream, answers."""
