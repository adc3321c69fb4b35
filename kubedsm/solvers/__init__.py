"""Integer-programming solvers (HiGHS, CP-SAT), each library in a separate process.

`available` has the solvers' settings, `process` starts and kills the process, and `highs_library`
and `cp_sat_library` run in it. Without its library a solver is absent.
"""
