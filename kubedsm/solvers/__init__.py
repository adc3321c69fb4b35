"""Those who solve the programmes of `core.solving`: libraries, each behind the same words.

Each takes some time, within the deadline it is given, and knows no cluster. Where a library is not
installed its solver says so, and there is one less.
"""
