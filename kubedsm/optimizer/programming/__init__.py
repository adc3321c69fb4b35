"""Integer programmes as values, solver protocol, and lexicographic optimisation."""
