"""Facts in two places agree: versions, commands, extras, entry points."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection
from pathlib import Path

import pytest
import yaml
from hdmf.common import DynamicTable, VectorData, get_manager

import hdmf_zarr_backend
from hdmf_zarr_backend import ZarrIO, extras

REPOSITORY = Path(__file__).resolve().parents[1]
DOCUMENT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = DOCUMENT["project"]
EXTRAS = PROJECT["optional-dependencies"]
ENTRY_POINTS = {**PROJECT["scripts"], **PROJECT["entry-points"]["zarr.data_type"]}


def test_ci_runs_the_test_command_of_the_readme():
    lines = (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    command, rest = (line.removesuffix(" || failed=1") for line in lines if "nox -s" in line)
    assert command in (REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()
    assert (command.split()[-1], rest.split()[-1]) == ("tests", "ci")


def test_the_version_is_the_same_everywhere_and_the_package_says_that_it_is_typed():
    citation = (REPOSITORY / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.+)$", citation, re.MULTILINE) == [PROJECT["version"]]
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[(.+?)\]", changelog, re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert headings[1:2] in ([], [PROJECT["version"]])
    assert "Typing :: Typed" in PROJECT["classifiers"]
    assert (REPOSITORY / "src" / "hdmf_zarr_backend" / "py.typed").is_file()


def test_every_bound_is_a_lower_one_and_all_means_all():
    """The nox session `tests-oldest` turns each into a pin; upper bounds are not wanted, gaps are."""
    bounds = [*PROJECT["dependencies"], *(bound for name in EXTRAS if name != "all" for bound in EXTRAS[name])]
    assert [bound for bound in bounds if not re.fullmatch(r"[A-Za-z0-9-]+>=[0-9.]+(,!=[0-9.]+\.\*)*", bound)] == []
    (everything,) = EXTRAS["all"]
    named = re.fullmatch(rf"{PROJECT['name']}\[(.+)\]", everything).group(1).split(",")
    assert sorted(named) == sorted(set(EXTRAS) - {"all"})


def test_the_advice_to_install_names_the_libraries_that_are_required_and_those_of_each_extra():
    libraries = {name: [re.split("[<>=!]", bound)[0] for bound in EXTRAS[name]] for name in EXTRAS if name != "all"}
    assert {name: list(entry) for name, entry in extras.EXTRAS.items()} == libraries
    assert list(extras.REQUIRED) == [re.split("[<>=!]", bound)[0] for bound in PROJECT["dependencies"]]


def _run_with(site: Path, libraries: Collection[str], program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a Python that finds this package and empty ``libraries`` in one folder only."""
    (site / "hdmf_zarr_backend").symlink_to(Path(hdmf_zarr_backend.__file__).parent)
    for name in libraries:
        (site / f"{name}.py").touch()
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = sys.argv[1:]\n{program}", str(site)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("missing", [*((name,) for name in extras.REQUIRED), extras.REQUIRED], ids="-".join)
def test_a_missing_library_is_one_error_at_import(tmp_path, missing):
    """As after ``pip install --no-deps``: it names what is missing and the command that installs it."""
    answer = _run_with(tmp_path, set(extras.REQUIRED) - set(missing), "import hdmf_zarr_backend")
    needs = f"hdmf_zarr_backend needs {', '.join(missing)}; install what is missing with: pip install "
    assert answer.stderr.splitlines()[-1] == f"ModuleNotFoundError: {needs}{' '.join(missing)}"
    assert answer.stderr.count("Traceback") == 1


def test_where_this_package_is_installed_the_command_installs_all_that_it_needs(tmp_path):
    _make_installed(tmp_path, "zarrio = hdmf_zarr_backend.cli.main:main")
    answer = _run_with(tmp_path, ["hdmf", "zarr", "numcodecs", "numpy"], "import hdmf_zarr_backend")
    assert answer.stderr.endswith("needs filelock; install what is missing with: pip install hdmf-zarr-backend\n")


@pytest.mark.parametrize(("library", "call", "what"), [
    ("xarray", "data.to_xarray()", "to_xarray() needs xarray"),
    ("dask", "data.to_dask()", "to_dask() needs dask"),
    ("dask", "data.to_xarray()", "to_dask() needs dask"),
    ("pydantic_zarr", "to_zom(sys.argv[1])", "to_zom() needs pydantic-zarr"),
    ("pynwb", "hdmf_zarr_backend.NWBZarrIO", "NWBZarrIO needs pynwb"),
])  # fmt: skip
def test_a_missing_optional_library_is_named_with_its_command(tmp_path, library, call, what):
    column = VectorData(name="x", description="d", data=[1, 2, 3])
    with ZarrIO(tmp_path / "a.zarr", "w", get_manager()) as io:
        io.write(DynamicTable(name="t", description="d", columns=[column]))
    program = f"""
import sys
sys.modules[{library!r}] = None
import hdmf_zarr_backend
from hdmf.common import get_manager
from hdmf_zarr_backend import ZarrIO
from hdmf_zarr_backend.zom import to_zom
with ZarrIO(sys.argv[1], "r", get_manager()) as io:
    data = io.read()["x"].data
    {call}
"""
    command = [sys.executable, "-c", program, str(tmp_path / "a.zarr")]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    said = rf"ModuleNotFoundError: {re.escape(what)}; install it with: pip install .+"
    assert re.fullmatch(said, answer.stderr.splitlines()[-1])


@pytest.mark.parametrize(("program", "advice"), [
    ("zarrio = hdmf_zarr_backend.cli.main:main", "pip install 'hdmf-zarr-backend[nwb]'"),
    ("zarrio = another.module:main", "pip install pynwb"),
    (None, "pip install pynwb"),
], ids=["ours is installed", "another package of that name", "not installed"])  # fmt: skip
def test_advice_names_this_package_only_where_the_installed_one_is_ours(tmp_path, program, advice):
    if program is not None:
        _make_installed(tmp_path, program)
    code = "from hdmf_zarr_backend.extras import install_command; print(install_command('nwb'))"
    assert _run_with(tmp_path, extras.REQUIRED, code).stdout.strip() == advice


def _make_installed(site: Path, program: str) -> None:
    """Make a distribution of the name of this package in a folder, with one program."""
    metadata = site / "hdmf_zarr_backend-9.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: hdmf-zarr-backend\nVersion: 9\n")
    (metadata / "entry_points.txt").write_text(f"[console_scripts]\n{program}\n")


@pytest.mark.parametrize("target", ENTRY_POINTS.values(), ids=ENTRY_POINTS)
def test_an_entry_point_leads_somewhere(target):
    module, _, name = target.partition(":")
    assert callable(getattr(importlib.import_module(module), name))


WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))
NOT_NOX = {"python -m pip install nox"}
ACTIONS = r"actions/(checkout|setup-python|(up|down)load-artifact)@v\d+|pypa/gh-action-pypi-publish@release/v1"


def sessions():
    tree = ast.parse((REPOSITORY / "noxfile.py").read_text(encoding="utf-8"))
    result = set()
    for function in [node for node in tree.body if isinstance(node, ast.FunctionDef)]:
        for decorator in function.decorator_list:
            if ast.unparse(decorator).startswith("nox.session"):
                options = {option.arg: option.value for option in getattr(decorator, "keywords", [])}
                result.add(options["name"].value if "name" in options else function.name)
    return result


def jobs_of(workflow):
    return yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"].values()


def sessions_of(job):
    called = []
    for command in [step["run"] for step in job.get("steps", ()) if "run" in step]:
        first, *words = command.split()
        if first != "nox" or words[0] != "-s":
            called += [] if command in NOT_NOX else [command]
            continue
        if words[1:] == ["${{", "matrix.session", "}}"]:
            called += job["strategy"]["matrix"]["session"]
            continue
        options = [number for number, name in enumerate(words) if number and name.startswith("-")]
        called += words[1 : options[0] if options else None]
    return called


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda workflow: workflow.stem)
def test_a_workflow_calls_sessions_that_exist_and_nothing_else(workflow):
    called = [name for job in jobs_of(workflow) for name in sessions_of(job)]
    assert called
    assert set(called) <= sessions()


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda workflow: workflow.stem)
def test_a_workflow_may_only_read_and_its_actions_are_of_a_major_version(workflow):
    document = yaml.safe_load(workflow.read_text(encoding="utf-8"))
    assert document["permissions"] == {"contents": "read"}
    assert document["concurrency"]["group"].startswith(f"{workflow.stem}-")
    asked = [job["permissions"] for job in jobs_of(workflow) if "permissions" in job]
    assert asked == ([{"id-token": "write"}] if workflow.stem == "release" else [])
    used = [step["uses"] for job in jobs_of(workflow) for step in job.get("steps", ()) if "uses" in step]
    assert [action for action in used if not re.fullmatch(ACTIONS, action)] == []


def test_every_session_runs_in_a_workflow_and_the_nightly_one_runs_the_whole():
    called = {name for workflow in WORKFLOWS for job in jobs_of(workflow) for name in sessions_of(job)}
    # made of those that are called, or a part of one
    assert sessions() - called == {"ci", "whole", "interop"}
    (job,) = jobs_of(REPOSITORY / ".github" / "workflows" / "whole.yml")
    tree = ast.parse((REPOSITORY / "noxfile.py").read_text(encoding="utf-8"))
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    (whole,) = (node.value for node in assigned if ast.unparse(node.targets[0]) == "WHOLE")
    assert sessions_of(job) == list(ast.literal_eval(whole))
