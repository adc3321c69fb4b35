"""What `pip install .` brings is what running imports: no more, and no less."""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from kubedsm.cli.main import MODULES
from loadgen.cli import MODULES as LOADGEN_MODULES
from support.imports import imported

ROOT = Path(__file__).parent.parent
OURS = {"kubedsm", "plans", "loadgen", "kubedsm_lab", "emulated_lab"}


def project(folder):
    """Return the metadata of the distribution that is built in the folder."""
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]


PROJECT, LAB = project(ROOT), project(ROOT / "lab")
LAB_MODULES = {
    where.partition(":")[0] for where in LAB["entry-points"]["kubedsm.commands"].values()
}


def modules_in(root, package):
    folder = root.joinpath(*package.split("."))
    return {f"{package}.{path.stem}" for path in folder.glob("[a-z]*.py")}


#: modules that a command imports when it runs
IMPLEMENTATIONS = modules_in(ROOT, "kubedsm.cli") | modules_in(ROOT / "lab", "kubedsm_lab.cli")
IMPLEMENTATIONS -= {*MODULES.values(), *LAB_MODULES, "kubedsm.cli.main"}
IMPLEMENTATIONS -= {"kubedsm.cli.options", "kubedsm_lab.cli.options"}


def imported_by_running():
    """All that functions of the commands import from the packages."""
    for path in (ROOT / "kubedsm" / "cli").glob("*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                for found in function.body:
                    if isinstance(found, ast.ImportFrom) and found.module.startswith("kubedsm"):
                        yield from (f"from {found.module} import {n.name}" for n in found.names)


@cache
def distributions_by_package():
    # immutables is not there on Python 3.14
    return {"immutables": ["immutables"], **packages_distributions()}


def distributions(*packages):
    """Return the normal names of all distributions that the packages import."""
    modules = (module for package in packages for module in (ROOT / package).rglob("*.py"))
    names = {name for module in modules for name in imported(module)}
    elsewhere = names - sys.stdlib_module_names - OURS
    by_name = distributions_by_package()
    return {normal(distribution) for name in elsewhere for distribution in by_name[name]}


def normal(requirement):
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()


def test_each_dependency_is_imported_and_each_import_is_a_dependency_or_an_extra():
    dependencies = {normal(requirement) for requirement in PROJECT["dependencies"]}
    extras = PROJECT["optional-dependencies"]
    optional = {
        normal(requirement) for extra in ("exact", "watch") for requirement in extras[extra]
    }
    assert distributions("kubedsm", "plans", "loadgen") == dependencies | optional
    assert dependencies & optional == set()


def test_the_lab_depends_on_what_it_imports():
    dependencies = {normal(requirement) for requirement in LAB["dependencies"]} - {"kubedsm"}
    optional = {normal(requirement) for requirement in LAB["optional-dependencies"]["dask"]}
    assert distributions("lab/kubedsm_lab", "k3s-lab") == dependencies | optional


def test_developers_have_every_extra_but_those_for_a_browser_and_the_site():
    extras = dict(PROJECT["optional-dependencies"])
    dev = {normal(requirement) for requirement in extras.pop("dev")}
    apart = (*extras.pop("browser"), *extras.pop("docs"))
    assert {normal(r) for r in apart} & dev == set()
    assert {normal(r) for extra in extras.values() for r in extra} <= dev


def loaded(code, looked_for):
    """Which of these modules there are once the code has run."""
    code = f"import sys; {code}; print(*sorted({looked_for} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_no_command_loads_what_is_not_installed_with_it_or_may_never_be_used():
    ours = sorted(name for name in IMPLEMENTATIONS if name.startswith("kubedsm."))
    running = sorted(set(imported_by_running()))
    assert len(running) > len(ours) > 10
    everything = "; ".join([f"import {', '.join(ours)}", *running])
    others = {"matplotlib", "networkx", "textual", "trustme", "prometheus_api_client", "requests"}
    assert loaded(everything, others) == []


def test_nothing_is_loaded_to_draw_with_or_to_ask_a_cluster_before_that_is_done():
    commands = "import kubedsm.cli.execution, kubedsm_lab.cli.replay_session"
    assert loaded(commands, {"kubernetes_asyncio", "matplotlib"}) == []


def test_prometheus_client_needs_nothing_that_the_image_is_without():
    client = "import prometheus_api_client.prometheus_connect"
    left_out = {"dateparser", "pytz", "regex", "tzlocal"}  # see Dockerfile
    assert loaded(client, left_out | {"requests"}) == ["requests"]


def test_only_the_command_that_is_asked_for_is_loaded():
    every = {*MODULES.values(), *LAB_MODULES, *IMPLEMENTATIONS}
    for name, module in (("place", MODULES["place"]), ("emulate", "kubedsm_lab.cli.emulate")):
        asked = f"from kubedsm.cli.main import commands; commands.get_command(None, {name!r})"
        assert loaded(asked, every) == [module]


def test_help_loads_nothing_of_what_commands_do():
    """Counted, for time is another one on each machine: all that help and completion ask for."""
    asked = f"import {', '.join([*MODULES.values(), *sorted(LAB_MODULES)])}"
    heavy = {"aiohttp", "asyncio", "kubernetes_asyncio", "msgspec", "numpy", "highspy", "rich"}
    heavy |= {"orjson", "structlog", "yaml", "yarl", "kubedsm.config.settings"}
    count = "print(len([name for name in sys.modules if name.startswith('kubedsm')]))"
    found, *others = loaded(f"{asked}; {count}", heavy | IMPLEMENTATIONS)
    assert others == []
    assert int(found) < 45


def test_help_of_loadgen_loads_nothing_of_what_its_commands_do():
    asked = f"import loadgen.cli, {', '.join(LOADGEN_MODULES.values())}"
    heavy = {"aiohttp", "asyncio", "numpy", "prometheus_client", "kubedsm.model"}
    heavy |= {f"loadgen.{name}" for name in ("server", "sending", "transport")}
    assert loaded(asked, heavy) == []


def test_a_service_that_takes_load_loads_nothing_of_what_sends_it():
    looked_for = {"loadgen.server", "loadgen.driver", "numpy"}
    assert loaded("import loadgen.cli, loadgen.server", looked_for) == ["loadgen.server"]
