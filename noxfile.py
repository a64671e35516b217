"""The single door: lint, types, import rules, tests, peers, documentation, examples, benchmarks.

``nox -r -s quick`` finds most mistakes within two minutes; ``nox`` (or ``nox -s ci``) runs the fast set that decides
about a change; ``nox -l`` lists all sessions; ``nox -r`` reuses the environments of the last run. Arguments after
``--`` go to the tool of the session.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))  # nox loads this file by its path; the search for interpreters is shared with the tests

from tests.interpreters import find_python  # noqa: E402

nox.needs_version = ">=2025.10"
nox.options.default_venv_backend = "venv"
nox.options.sessions = ["ci"]

# What is not imported need not be compiled; the first import compiles the rest.
os.environ.setdefault("PIP_NO_COMPILE", "1")

PYPROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
OLDEST, NEWEST = "3.11", "3.13"


def _interpreter(version: str) -> str | None:
    found = find_python(version)
    return str(found) if found else None


OLDEST_PYTHON, NEWEST_PYTHON = _interpreter(OLDEST), _interpreter(NEWEST)

#: Releases of zarr-python between the oldest and the newest: that of dandi, and the last one for Python 3.11.
ZARR_BETWEEN = ("3.1.5", "3.1.6")

#: Sessions that use one core run side by side; of the sessions of tests, these lanes make the environments.
LANES = (("lint", "prose", "types", "docs"), ("imports", "types-newest", "tests-newest", "tests-oldest"))

#: The oldest set comes last: it is there on every machine, so that its summary of the tests closes the run.
TESTS = ("tests-newest", "tests-oldest")

QUICK = ("tests/contract", "tests/model", "tests/formats", "tests/test_formats.py", "tests/test_import_rules.py")


def _group(name: str) -> tuple[str, ...]:
    return nox.project.dependency_groups(PYPROJECT, name)


def _oldest_releases() -> list[str]:
    """Turn each lower bound that pyproject.toml declares into a pin."""
    project = PYPROJECT["project"]
    extras = project["optional-dependencies"]
    bounds = [*project["dependencies"], *(bound for name, extra in extras.items() if name != "all" for bound in extra)]
    return [bound.replace(">=", "==") for bound in bounds]


def _require(session: nox.Session, version: str) -> None:
    if session.python is None:  # found by its version, or named by `--force-python`
        # A job of the continuous checks that runs nothing would pass.
        refuse = session.error if "GITHUB_ACTIONS" in os.environ else session.skip
        refuse(f"there is no Python {version} on this machine")


def _install_newest(session: nox.Session, group: str) -> None:
    _require(session, NEWEST)
    session.install("--upgrade", ".[all]", *_group(group), *(_group("test-zarr-3") if group == "test" else ()))
    if group == "test":
        _install_compiled(session)


def _install_compiled(session: nox.Session) -> None:
    """Install what has to be compiled, if this machine can."""
    session.install(*_group("test-compiled"), success_codes=[0, 1])


def _install_oldest(session: nox.Session) -> None:
    _require(session, OLDEST)
    session.install(".[all]", *_oldest_releases(), *_group("test"))
    _install_compiled(session)


def _sample(session: nox.Session, most: int, *, of_files: bool = False) -> dict[str, str]:
    """Return the environment for a sample of the tests (`tests/sampling.py`), unless arguments choose some."""
    return {} if session.posargs else {f"HDMF_ZARR_BACKEND_SAMPLE{'_OF_FILES' if of_files else ''}": str(most)}


def _pytest(
    session: nox.Session,
    selection: str,
    *,
    every_file: bool = False,
    searches: bool = False,
    sample: dict[str, str] | None = None,
) -> None:
    # From an installed wheel, not from src/: what the wheel forgets is missed.
    env = {"HDMF_ZARR_BACKEND_EVERY_FILE": "1"} if every_file else {}
    if searches:
        env["HDMF_ZARR_BACKEND_HYPOTHESIS"] = "random"
    env |= sample or {}
    session.run(
        "pytest", "-n", "2", "--dist", "worksteal", "--durations", "20", "-m", selection, *session.posargs, env=env
    )


def _nox(session: nox.Session, *arguments: str, waits: bool = False) -> bool:
    """Run nox again; what it prints is shown at its end where it runs beside others, which ``waits`` says."""
    command = [sys.executable, "-m", "nox", "--noxfile", __file__, *arguments]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE if waits else None, stderr=subprocess.STDOUT)
    if waits:
        session.log("%s\n%s", " ".join(arguments), done.stdout.decode(errors="replace"))
    return done.returncode == 0


@nox.session(venv_backend="none")
def ci(session: nox.Session) -> None:
    """Run the fast set: everything that decides about a change."""

    def lane(names: tuple[str, ...]) -> list[str]:
        options = {name: ["--install-only"] if name in TESTS else [] for name in names}
        return [name for name in names if not _nox(session, *options[name], "-s", name, waits=True)]

    with ThreadPoolExecutor(len(LANES)) as lanes:
        failed = [name for names in lanes.map(lane, LANES) for name in names]
    failed += [name for name in TESTS if name not in failed and not _nox(session, "-R", "-s", name)]
    if failed:
        session.error(f"these have failed: {', '.join(failed)}")


@nox.session(python=OLDEST_PYTHON)
def quick(session: nox.Session) -> None:
    """Find most mistakes within two minutes: style, imports, types of changed files, model, formats, local contract."""
    _require(session, OLDEST)
    session.install("-e", ".[all]", *_group("lint"), *_group("types"), *_group("imports"), *_group("test"))
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("lint-imports", "--no-cache")
    changed = session.run(
        "git", "diff", "--name-only", "--diff-filter=d", "HEAD~1", "--", "*.py", external=True, silent=True
    )
    new = session.run("git", "ls-files", "-o", "--exclude-standard", "--", "*.py", external=True, silent=True)
    checked = tuple(PYPROJECT["tool"]["mypy"]["files"])
    if files := [name for name in f"{changed}{new}".split() if name.startswith(checked)]:
        session.run("mypy", *files)
    selection = ("-m", "not slow and not corpus and not peer and not hypothesis")
    tests = ("-n", "2", "--dist", "worksteal", *selection, *(session.posargs or QUICK))
    session.run("pytest", *tests, env={"HDMF_ZARR_BACKEND_LOCAL_CELLS": "1", **_sample(session, 2)})


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, complexity, docstrings and formatting (ruff), and the workflows by their schema."""
    session.install(*_group("lint"))
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    workflows = sorted(ROOT.glob(".github/workflows/*.yml"))
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *map(str, workflows))


@nox.session(python=OLDEST_PYTHON)
def types(session: nox.Session) -> None:
    """Check types strictly on the oldest Python and zarr (mypy)."""
    _require(session, OLDEST)
    # Only zarr is held back: the annotations of old releases of numpy would be judged, not ours.
    zarr = next(release for release in _oldest_releases() if release.startswith("zarr=="))
    session.install(".[all]", zarr, *_group("types"))
    session.run("mypy", *session.posargs)


@nox.session(name="types-newest", python=NEWEST_PYTHON)
def types_newest(session: nox.Session) -> None:
    """Check types strictly on the newest Python and libraries (mypy)."""
    _install_newest(session, "types")
    session.run("mypy", *session.posargs)


@nox.session
def imports(session: nox.Session) -> None:
    """Check who imports whom: layers (import-linter) and the table of packages."""
    session.install(".", *_group("imports"))  # the package says at its import what it lacks
    session.run("lint-imports", "--no-cache", env={"PYTHONPATH": str(ROOT / "src")})
    session.run("pytest", "--noconftest", "tests/test_import_rules.py", *session.posargs)


@nox.session(name="tests-oldest", python=OLDEST_PYTHON)
def tests_oldest(session: nox.Session) -> None:
    """Run each test function once on the oldest Python and libraries; without property tests, peers and real files."""
    _install_oldest(session)
    _pytest(session, "not slow and not corpus and not peer and not hypothesis", sample=_sample(session, 1))


@nox.session(name="whole-oldest", python=OLDEST_PYTHON)
def whole_oldest(session: nox.Session) -> None:
    """Run these in full, and property tests."""
    _install_oldest(session)
    _pytest(session, "not slow and not corpus and not peer")


@nox.session(name="tests-newest", python=NEWEST_PYTHON)
def tests_newest(session: nox.Session) -> None:
    """Run the tests on the newest Python and libraries; of many like each other that make files, some."""
    _install_newest(session, "test")
    _pytest(session, "not slow", sample=_sample(session, 8, of_files=True))


@nox.session(name="whole-newest", python=NEWEST_PYTHON)
def whole_newest(session: nox.Session) -> None:
    """Run these in full."""
    _install_newest(session, "test")
    _pytest(session, "not slow")


@nox.session(name="tests-zarr", python=NEWEST_PYTHON)
@nox.parametrize("zarr", ZARR_BETWEEN)
def tests_zarr(session: nox.Session, zarr: str) -> None:
    """Run a sample of the tests on the releases of zarr-python between the oldest and the newest."""
    _require(session, NEWEST)
    session.install(".[all]", f"zarr=={zarr}", *_group("test"), *_group("test-zarr-3"))
    _pytest(session, "not slow and not corpus and not peer", sample=_sample(session, 4))


@nox.session(python=NEWEST_PYTHON)
def slow(session: nox.Session) -> None:
    """Run the tests that take long, the property tests on new examples, and a sample on each zarr between."""
    for zarr in ZARR_BETWEEN:  # the name alone would be the first of them
        session.notify(f"tests-zarr(zarr={zarr!r})")
    _install_newest(session, "test")
    _pytest(session, "slow or (hypothesis and not peer and not corpus)", every_file=True, searches=True)


@nox.session(python=NEWEST_PYTHON)
def mutants(session: nox.Session) -> None:
    """Count the small changes of the model, the formats and the changes that the tests notice, of a sample."""
    _install_newest(session, "test")
    session.install(*_group("mutants"))
    session.run("python", "-m", "tests.mutants", *session.posargs)


@nox.session(python=NEWEST_PYTHON)
def clients(session: nox.Session) -> None:
    """Run neuroconv, SpikeInterface, dandi and others on these files, each installed beside this package by pip."""
    session.run("python", "-m", "pip", "install", "--quiet", "pip", "hatchling")
    session.run("python", "-m", "tests.clients", *session.posargs)


@nox.session
def peers(session: nox.Session) -> None:
    """Make the environments of hdmf-zarr 0.13 and 0.14, and of lindi, that the tests and benchmarks use."""
    session.install("filelock")
    session.run("python", "-m", "tests.peers")


@nox.session(python=NEWEST_PYTHON)
def interop(session: nox.Session) -> None:
    """Run what needs hdmf-zarr in its own environment, or the real NWB files, on each of these."""
    _install_newest(session, "test")
    _pytest(session, "(peer or corpus) and not slow", every_file=True)


@nox.session(name="interop-oldest", python=OLDEST_PYTHON)
def interop_oldest(session: nox.Session) -> None:
    """Run the same on the oldest Python and the oldest release of each library."""
    _install_oldest(session)
    _pytest(session, "(peer or corpus) and not slow", every_file=True)


@nox.session(python=OLDEST_PYTHON)
def suites(session: nox.Session) -> None:
    """Run the tests of pynwb, hdmf and hdmf-zarr on this package and print the counts; names choose some of them."""
    _require(session, OLDEST)
    # The suites are those of the oldest releases of pynwb and hdmf that are taken.
    # Some of their tests are skipped without linkml-runtime, which does not import with the oldest pydantic. That of
    # hdmf-zarr calls zarr-python 2 by way of `tests/suites/plugins/zarr2_calls.py`.
    releases = [release for release in _oldest_releases() if not release.startswith(("pydantic", "zarr", "numcodecs"))]
    session.install(".[all]", *releases, *_group("test"), "linkml-runtime>=1.5.5")
    session.run("python", "-m", "tests.suites", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation, gallery included, and check its links; a warning is an error."""
    session.install(".[all]", *_group("docs"))
    session.run("sphinx-build", "-W", "--keep-going", "-b", "html", "docs", "docs/_build/html", *session.posargs)
    session.run("python", "docs/_scripts/links.py", "docs/_build/html")


@nox.session
def prose(session: nox.Session) -> None:
    """Check the language of the README, the documentation and the gallery (proselint and a list of phrases)."""
    session.install(*_group("prose"))
    session.run("python", "docs/_scripts/prose.py", *session.posargs)


@nox.session
def gallery(session: nox.Session) -> None:
    """Run each example as a plain script."""
    session.install(".[all]", *_group("gallery"))
    for example in sorted((ROOT / "gallery").glob("plot_*.py")):
        session.run("python", str(example), env={"MPLBACKEND": "Agg"})


@nox.session
def bench(session: nox.Session) -> None:
    """Run the benchmarks in their quick form; `nox -s bench -- --full` measures."""
    session.install(".[all]", *_group("bench"))
    scripts = sorted((ROOT / "benchmarks").glob("bench_*.py"))
    if not scripts:
        session.error("there is no benchmarks/bench_*.py")
    options = [option for option in session.posargs if option != "--full"]
    if "--full" not in session.posargs:
        options.append("--quick")
    for script in scripts:
        session.run("python", str(script), *options)


@nox.session(name="bench-before", python=NEWEST_PYTHON)
def bench_before(session: nox.Session) -> None:
    """Compare CPU times with another commit, HEAD~1 or the one that is named; options go to bench_before.py."""
    _require(session, NEWEST)
    session.install(".[all]", *_group("bench"))
    commit, *options = (
        session.posargs if session.posargs and session.posargs[0][0] != "-" else ("HEAD~1", *session.posargs)
    )
    folder = Path(session.create_tmp())
    archive = folder / "before.tar"
    session.run("git", "archive", f"--output={archive}", commit, "src", external=True)
    with tarfile.open(archive) as before:
        before.extractall(folder / "before", filter="data")
    script = ROOT / "benchmarks" / "bench_before.py"
    session.run("python", str(script), "--before", str(folder / "before" / "src"), *options)


@nox.session
def build(session: nox.Session) -> None:
    """Build the source distribution and the wheel, and check them; a tag that is named must be of this version."""
    version = PYPROJECT["project"]["version"]
    if session.posargs not in ([], [f"v{version}"]):
        session.error(f"the tag {' '.join(session.posargs)} is not v{version}, the version in pyproject.toml")
    session.install(*_group("build"))
    session.run("python", "-m", "build")
    session.run("twine", "check", "--strict", *map(str, sorted((ROOT / "dist").glob(f"*-{version}*"))))
