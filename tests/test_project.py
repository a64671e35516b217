"""Facts in two places agree: versions, commands, extras, entry points."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import hdmf_zarr_backend
from hdmf_zarr_backend import extras

REPOSITORY = Path(__file__).resolve().parents[1]
DOCUMENT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = DOCUMENT["project"]
EXTRAS = PROJECT["optional-dependencies"]
ENTRY_POINTS = {**PROJECT["scripts"], **PROJECT["entry-points"]["zarr.data_type"]}


def test_ci_runs_the_test_command_of_the_readme():
    command = (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8").strip().splitlines()[-1]
    assert command.endswith("nox -s ci")
    assert command in (REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()


def test_the_version_is_the_same_everywhere():
    citation = (REPOSITORY / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.+)$", citation, re.MULTILINE) == [PROJECT["version"]]
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[(.+?)\]", changelog, re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert headings[1:2] in ([], [PROJECT["version"]])


def test_every_bound_is_a_lower_one():
    """The nox session `tests-oldest` turns each into a pin; upper bounds are not wanted, gaps are."""
    bounds = [*PROJECT["dependencies"], *(bound for name in EXTRAS if name != "all" for bound in EXTRAS[name])]
    assert [bound for bound in bounds if not re.fullmatch(r"[A-Za-z0-9-]+>=[0-9.]+(,!=[0-9.]+\.\*)*", bound)] == []


def test_all_means_all():
    (everything,) = EXTRAS["all"]
    named = re.fullmatch(rf"{PROJECT['name']}\[(.+)\]", everything).group(1).split(",")
    assert sorted(named) == sorted(set(EXTRAS) - {"all"})


def test_the_advice_to_install_names_the_libraries_of_each_extra():
    libraries = {name: [re.split("[<>=!]", bound)[0] for bound in EXTRAS[name]] for name in EXTRAS if name != "all"}
    assert {name: list(found) for name, found in extras.EXTRAS.items()} == libraries


def _advice(site: Path) -> str:
    """Return the advice to install pynwb in a Python that finds packages in one folder only."""
    (site / "hdmf_zarr_backend").symlink_to(Path(hdmf_zarr_backend.__file__).parent)
    program = "import sys; sys.path[:0] = sys.argv[1:]; from hdmf_zarr_backend.extras import install_command"
    command = [sys.executable, "-I", "-S", "-c", f"{program}; print(install_command('nwb'))", str(site)]
    return subprocess.check_output(command, text=True).strip()


@pytest.mark.parametrize(
    ("program", "advice"),
    [
        ("zarrio = hdmf_zarr_backend.cli.main:main", "pip install 'hdmf-zarr-backend[nwb]'"),
        ("zarrio = another.module:main", "pip install pynwb"),
        (None, "pip install pynwb"),
    ],
    ids=["ours is installed", "another package of that name", "not installed"],
)
def test_advice_names_this_package_only_where_the_installed_one_is_ours(tmp_path, program, advice):
    if program is not None:
        metadata = tmp_path / "hdmf_zarr_backend-9.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: hdmf-zarr-backend\nVersion: 9\n")
        (metadata / "entry_points.txt").write_text(f"[console_scripts]\n{program}\n")
    assert _advice(tmp_path) == advice


@pytest.mark.parametrize("target", ENTRY_POINTS.values(), ids=ENTRY_POINTS)
def test_an_entry_point_leads_somewhere(target):
    module, _, name = target.partition(":")
    assert callable(getattr(importlib.import_module(module), name))


def test_the_citation_says_what_the_project_says():
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "type", "authors", "abstract", "keywords"} <= citation.keys()
    assert citation["license"] == PROJECT["license"]
    assert [author["name"] for author in citation["authors"]] == [author["name"] for author in PROJECT["authors"]]
    assert citation["title"].startswith(PROJECT["name"])


@pytest.mark.parametrize("name", ["defect.yml", "wish.yml"])
def test_an_issue_template_is_a_form(name):
    form = yaml.safe_load((REPOSITORY / ".github" / "ISSUE_TEMPLATE" / name).read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= form.keys()
    assert {part["type"] for part in form["body"]} <= {"markdown", "textarea", "input", "dropdown", "checkboxes"}
    questions = [part for part in form["body"] if part["type"] != "markdown"]
    assert all(part["attributes"]["label"] for part in questions)
    assert len({part["id"] for part in questions}) == len(questions)


def test_the_package_says_that_it_is_typed():
    assert "Typing :: Typed" in PROJECT["classifiers"]
    assert (REPOSITORY / "src" / "hdmf_zarr_backend" / "py.typed").is_file()


WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))
NOT_NOX = {"python -m pip install nox"}
ACTIONS = (
    r"actions/(checkout|setup-python|upload-artifact|download-artifact)@v\d+|pypa/gh-action-pypi-publish@release/v1"
)


def sessions():
    """Return the names of the nox sessions."""
    tree = ast.parse((REPOSITORY / "noxfile.py").read_text(encoding="utf-8"))
    found = set()
    for function in [node for node in tree.body if isinstance(node, ast.FunctionDef)]:
        for decorator in function.decorator_list:
            if ast.unparse(decorator).startswith("nox.session"):
                options = {option.arg: option.value for option in getattr(decorator, "keywords", [])}
                found.add(options["name"].value if "name" in options else function.name)
    return found


def jobs_of(workflow):
    return yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"].values()


def sessions_of(job):
    """Return the sessions that a job calls; other commands are returned as they are."""
    called = []
    for command in [step["run"] for step in job.get("steps", ()) if "run" in step]:
        first, *words = command.split()
        if first != "nox" or words[0] != "-s":
            called += [] if command in NOT_NOX else [command]
            continue
        if words[1:] == ["${{", "matrix.session", "}}"]:
            called += job["strategy"]["matrix"]["session"]
            continue
        options = [number for number, word in enumerate(words) if number and word.startswith("-")]
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


def test_every_session_that_decides_about_a_release_runs_in_a_workflow():
    called = {name for workflow in WORKFLOWS for job in jobs_of(workflow) for name in sessions_of(job)}
    # parts of those that are called, or made of them
    by_others = {"ci", "tests-newest", "tests-oldest", "tests-zarr", "peers"}
    assert sessions() - called - by_others == set()
