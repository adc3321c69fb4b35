"""Who set which field, and server-side apply.

What it does, and in which words, is that of sigs.k8s.io/structured-merge-diff and of
k8s.io/apimachinery/pkg/util/managedfields.
"""
