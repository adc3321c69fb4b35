"""Parts of `lab emulated` besides shell: objects created without kubectl, and the check of a run.

The configurations of its Prometheus and its scheduler are here as well.
"""
