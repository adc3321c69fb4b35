"""Console plumbing shared by all distributions: problems, the main loop, tables, whole files."""
