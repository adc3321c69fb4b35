"""The boundary of the solver process, with stub libraries that misbehave behind it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from kubedsm.model.deadline import NO_DEADLINE, Deadline
from kubedsm.optimizer.programming.in_order import Goal, maximise_in_order
from kubedsm.optimizer.programming.programme import Rows, Status
from kubedsm.solvers import process
from kubedsm.solvers.available import CpSat, Highs, is_installed
from support.processes import PATIENCE, write

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


pytestmark = pytest.mark.http

STARTED = """
def started():
    open(os.path.join(here, "running"), "w").close()
"""
NEVER_RETURNS = (
    STARTED
    + """
import time
highspy.Highs.run = lambda self: (started(), time.sleep(10**6))
"""
)
#: as a library in C may do, that never gives the interpreter back
HOLDS_THE_INTERPRETER = (
    STARTED
    + """
import ctypes
highspy.Highs.run = lambda self: (started(), ctypes.PyDLL(None).sleep(10**6))
"""
)
ENDS = """
import os
highspy.Highs.run = lambda self: os._exit(3)
"""
CANNOT_BE_LOADED = """
with open(os.path.join(here, "tries"), "a") as tries:
    tries.write("one more\\n")
raise ImportError("libgomp.so.1")
"""
#: the worst is claimed to be the best
MINIMISES = """
class Backwards(highspy.Highs):
    def passModel(self, model):
        model.col_cost_ = [-cost for cost in model.col_cost_]
        return super().passModel(model)
highspy.Highs = Backwards
"""


@pytest.fixture
def stub(tmp_path, monkeypatch):
    """Replace highspy in solver processes; afterwards none of them is left."""

    def replaced(code):
        path = write_stub(tmp_path, code)
        monkeypatch.setenv("PYTHONPATH", path)
        monkeypatch.syspath_prepend(path.partition(os.pathsep)[0])
        for loaded in ("highspy", "kubedsm.solvers.highs_library"):
            monkeypatch.delitem(sys.modules, loaded, raising=False)
        process.stop_all()

    yield replaced
    process.stop_all()


def of_one(most=1):
    rows = Rows()
    rows.add((rows.variables([5]), [1]), most=most)
    return rows.programme()


GOAL = np.array([1])


def answered(solver=None, deadline=NO_DEADLINE):
    return (solver or Highs()).maximise(of_one(), GOAL, deadline)


def gone(pid):
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def wait_until_gone(pid):
    until = time.monotonic() + PATIENCE
    while not gone(pid):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_nothing_that_the_library_prints_arrives(stub, capfd):
    stub(PRINTS)
    assert answered().status is Status.OPTIMAL
    out, err = capfd.readouterr()
    assert BANNER not in out + err
    assert (out, err) == ("", "")


@pytest.mark.parametrize("code", [NEVER_RETURNS, HOLDS_THE_INTERPRETER])
def test_a_solver_that_never_returns_is_killed_and_the_start_solution_stands(stub, code):
    stub(code)
    goals, hint = [Goal("all", GOAL), Goal("again", -GOAL)], np.array([2])
    found = maximise_in_order(of_one(3), goals, Highs(seconds=0.2), NO_DEADLINE, hint)
    assert found.values.tolist() == [2]
    assert [c.proven for c in found.certificates] == [False, False]
    assert {c.note for c in found.certificates} == {
        "the solver process was killed 0.3 s after its budget"
    }


def test_a_killed_solver_is_started_again_when_next_needed(stub):
    stub(NEVER_RETURNS)
    assert answered(Highs(seconds=0.1)).status is Status.UNKNOWN
    stub("")
    assert answered().status is Status.OPTIMAL


def test_a_stopped_process_is_killed_and_the_next_answers(stub):
    stub("")
    assert answered().status is Status.OPTIMAL
    [pid] = process.pids()
    os.kill(pid, signal.SIGSTOP)
    assert answered(Highs(seconds=0.1)).status is Status.UNKNOWN
    assert gone(pid)
    assert answered().status is Status.OPTIMAL
    [other] = process.pids()
    os.kill(other, signal.SIGKILL)
    os.waitid(os.P_PID, other, os.WEXITED | os.WNOWAIT)
    assert answered().status is Status.OPTIMAL
    assert process.pids() != [other]


def test_a_solver_process_that_ends_gives_no_answer(stub):
    stub(ENDS)
    solved = answered()
    assert (solved.status, solved.note) == (Status.UNKNOWN, "the solver process ended")


def test_a_library_that_cannot_be_loaded_gives_no_answer_and_is_not_tried_at_once(stub, tmp_path):
    stub(CANNOT_BE_LOADED)
    for _ in range(2):
        solved = answered()
        assert (solved.status, solved.note) == (
            Status.UNKNOWN,
            "the solver process did not start",
        )
    assert process.pids() == []
    assert (tmp_path / "stub" / "tries").read_text(encoding="utf-8") == "one more\n"


def test_a_deadline_that_passes_early_stops_a_solver_or_kills_it(stub):
    stub(NEVER_RETURNS)
    looks = iter([0.0] * 5)
    deadline = Deadline(lambda: next(looks, 1.0), 600.0)
    assert answered(deadline=deadline).status is Status.UNKNOWN
    assert process.pids() == []


def test_a_library_that_claims_the_worst_is_the_best_is_not_believed(stub):
    stub(MINIMISES)
    rows, rng = Rows(), np.random.default_rng(1)
    variables = rows.variables(np.full(8, 3))
    rows.add((variables, rng.integers(3, 9, 8)), most=40)
    goals = [Goal("all", rng.integers(1, 9, 8))]
    hint = np.eye(8, dtype=np.int64)[0]
    found = maximise_in_order(rows.programme(), goals, Highs(), NO_DEADLINE, hint)
    assert not found.proven
    assert int(goals[0].weights @ found.values) >= int(goals[0].weights @ hint)


PARENT = """
import numpy as np
from kubedsm.optimizer.programming.programme import Rows
from kubedsm.model.deadline import NO_DEADLINE
from kubedsm.solvers import process
from kubedsm.solvers.available import Highs
from threading import Thread
rows = Rows()
rows.add((rows.variables([5]), [1]), most=3)
asking = (rows.programme(), np.array([1]), NO_DEADLINE)
"""
SOLVES = """
import time
solving = Thread(target=Highs({limits}).maximise, args=asking, daemon=True)
solving.start()
while not (process.pids() if {hangs} else solving.join() or True):
    time.sleep(0.01)
print(*process.pids(), flush=True)
time.sleep(10**6)
"""


@pytest.mark.parametrize(
    ("code", "limits"),
    [("", ""), (NEVER_RETURNS, ""), (HOLDS_THE_INTERPRETER, "seconds=3")],
    ids=["idle", "solving", "holding the interpreter"],
)
def test_a_solver_process_ends_when_its_parent_is_killed(stub, tmp_path, code, limits):
    stub(code)
    script = PARENT + SOLVES.format(limits=limits, hangs=bool(code))
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        pid = int(parent.stdout.readline())
        until = time.monotonic() + PATIENCE
        while code and not (tmp_path / "stub" / "running").exists():
            assert time.monotonic() < until
            time.sleep(0.01)
        assert not gone(pid)
        parent.kill()
    wait_until_gone(pid)


def test_a_forked_child_has_a_solver_process_of_its_own():
    script = (
        PARENT
        + """
import os
first = Highs().maximise(*asking)
here = process.pids()
if not os.fork():
    assert process.pids() == []
    assert Highs().maximise(*asking).status == "optimal"
    assert process.pids() != here
    process.stop_all()
    os._exit(0)
assert os.wait()[1] == 0
assert Highs().maximise(*asking).status == "optimal"
assert process.pids() == here
"""
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=PATIENCE)


@pytest.mark.skipif(not is_installed("cp-sat"), reason="ortools is not installed")
def test_cp_sat_is_stopped_when_its_deadline_passes_early():
    rows, rng = Rows(), np.random.default_rng(3)
    variables = rows.variables(np.full(300, 9))
    for _ in range(200):
        rows.add((variables, rng.integers(0, 10**6, 300)), most=10**8)
    looks = iter([0.0] * 20)
    deadline = Deadline(lambda: next(looks, 1.0), 600.0)
    solved = CpSat(workers=1).maximise(
        rows.programme(), rng.integers(1, 10**6, 300), deadline, np.zeros(300, dtype=np.int64)
    )
    assert solved.status is not Status.OPTIMAL
