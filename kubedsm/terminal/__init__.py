"""Console plumbing that both command lines share: problems, the main loop, tables, whole files."""
