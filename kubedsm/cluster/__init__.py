"""The only package that speaks Kubernetes."""
