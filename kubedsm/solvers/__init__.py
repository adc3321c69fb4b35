"""Solvers of integer programmes, each a library in a process of its own.

`highs` and `cp_sat` are the solvers' settings, `process` starts and kills the process, and
`highs_library` and `cp_sat_library` run in it. If a library is not installed, its solver is absent.
"""
