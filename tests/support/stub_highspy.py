"""Modified highspy for other processes: the real library, patched by some code."""

import os

from support.processes import write

BANNER = "Running HiGHS"
#: to both file descriptors: when it is imported, constructed, and run
PRINTS = f"""
import os
def print_banner():
    for descriptor in (1, 2):
        os.write(descriptor, b"{BANNER}\\n")
print_banner()
class Printing(highspy.Highs):
    def __init__(self):
        print_banner()
        super().__init__()
    def run(self):
        print_banner()
        return super().run()
highspy.Highs = Printing
"""
_REAL = """
import importlib, os, sys
here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path = [path for path in sys.path if os.path.abspath(path) != here]
del sys.modules["highspy"]
highspy = importlib.import_module("highspy")
"""


def write_stub(folder, code):
    """Write the stub and return the value of PYTHONPATH with which processes import it."""
    (folder / "stub" / "highspy").mkdir(parents=True, exist_ok=True)
    write(folder / "stub" / "highspy", "__init__.py", _REAL + code)
    others = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join(filter(None, (str(folder / "stub"), others)))
