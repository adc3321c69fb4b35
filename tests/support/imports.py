"""Imports of modules, by an expression: parsing all modules takes seconds."""

import re

#: a statement as the formatter writes it
_IMPORT = re.compile(r"^ *(?:from|import) ([\w.]+)(?: import .*| as \w+)?(?:  #.*)?$", re.MULTILINE)


def imported(module):
    """Return the packages or modules of which it imports something; "" is its own package."""
    text = module.read_text(encoding="utf-8")
    return {name.partition(".")[0] for name in _IMPORT.findall(text)}
