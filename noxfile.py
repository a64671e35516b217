"""The single door: lint, types, import rules, tests, peers, documentation, examples, benchmarks.

``nox`` (or ``nox -s ci``) runs the fast set that decides about a change; ``nox -l`` lists all sessions; ``nox -r``
reuses the environments of the last run. What stands after ``--`` goes to the tool of the session.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))  # nox loads this file by its path; the search for interpreters is shared with the tests

from tests.interpreters import find_python  # noqa: E402

nox.needs_version = ">=2025.10"
nox.options.default_venv_backend = "venv"
nox.options.sessions = ["ci"]

PYPROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
OLDEST, NEWEST = "3.11", "3.13"


def _interpreter(version: str) -> str | None:
    found = find_python(version)
    return str(found) if found else None


OLDEST_PYTHON, NEWEST_PYTHON = _interpreter(OLDEST), _interpreter(NEWEST)

#: The oldest set comes last: it is there on every machine, so that its summary of the tests closes the run.
FAST = ("lint", "types", "types-newest", "imports", "docs", "bench", "tests-newest", "tests-oldest")


def _group(name: str) -> tuple[str, ...]:
    return nox.project.dependency_groups(PYPROJECT, name)


def _oldest_releases() -> list[str]:
    """Turn each lower bound that pyproject.toml declares into a pin."""
    project = PYPROJECT["project"]
    extras = project["optional-dependencies"]
    bounds = [*project["dependencies"], *(bound for name, extra in extras.items() if name != "all" for bound in extra)]
    return [bound.replace(">=", "==") for bound in bounds]


def _require(session: nox.Session, interpreter: str | None, version: str) -> None:
    if interpreter is None:
        session.skip(f"there is no Python {version} on this machine")


def _install_newest(session: nox.Session, group: str) -> None:
    _require(session, NEWEST_PYTHON, NEWEST)
    session.install("--upgrade", ".[all]", *_group(group))


def _install_oldest(session: nox.Session) -> None:
    _require(session, OLDEST_PYTHON, OLDEST)
    session.install(".[all]", *_oldest_releases(), *_group("test"))


def _pytest(session: nox.Session, selection: str, *, every_file: bool = False, sample: int | None = None) -> None:
    # From an installed wheel, not from src/: what the wheel forgets is missed.
    env = {"HDMF_ZARR_BACKEND_EVERY_FILE": "1"} if every_file else {}
    if sample is not None and not session.posargs:
        env["HDMF_ZARR_BACKEND_SAMPLE"] = str(sample)
    session.run("pytest", "-n", "2", "--durations", "20", "-m", selection, *session.posargs, env=env)


@nox.session(venv_backend="none")
def ci(session: nox.Session) -> None:
    """Run the fast set: everything that decides about a change."""
    for name in FAST:
        session.notify(name, posargs=[])


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, complexity, docstrings and formatting (ruff)."""
    session.install(*_group("lint"))
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")


@nox.session(python=OLDEST_PYTHON)
def types(session: nox.Session) -> None:
    """Check types strictly on the oldest Python and zarr (mypy)."""
    _require(session, OLDEST_PYTHON, OLDEST)
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
    """Check who imports whom: layers (import-linter) and the table of rooms."""
    session.install(*_group("imports"))
    # The source is read, not run: none of the project's dependencies is needed.
    session.run("lint-imports", "--no-cache", env={"PYTHONPATH": str(ROOT / "src")})
    session.run("pytest", "--noconftest", "tests/test_import_rules.py", *session.posargs)


@nox.session(name="tests-oldest", python=OLDEST_PYTHON)
def tests_oldest(session: nox.Session) -> None:
    """Run every test on the oldest Python and libraries, of many like each other two; without peers and real files."""
    _install_oldest(session)
    _pytest(session, "not slow and not corpus and not peer", sample=2)


@nox.session(name="whole-oldest", python=OLDEST_PYTHON)
def whole_oldest(session: nox.Session) -> None:
    """Run the same in full."""
    _install_oldest(session)
    _pytest(session, "not slow and not corpus and not peer")


@nox.session(name="tests-newest", python=NEWEST_PYTHON)
def tests_newest(session: nox.Session) -> None:
    """Run the tests on the newest Python and the newest release of each library."""
    _install_newest(session, "test")
    _pytest(session, "not slow")


@nox.session(python=NEWEST_PYTHON)
def slow(session: nox.Session) -> None:
    """Run the tests that take long."""
    _install_newest(session, "test")
    _pytest(session, "slow", every_file=True)


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
    _require(session, OLDEST_PYTHON, OLDEST)
    # The suites are those of the oldest releases of pynwb and hdmf that are taken.
    # Some of their tests are skipped without linkml-runtime, which does not import with the oldest pydantic.
    releases = [release for release in _oldest_releases() if not release.startswith("pydantic")]
    session.install(".[all]", *releases, *_group("test"), "linkml-runtime>=1.5.5")
    session.run("python", "-m", "tests.suites", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation, gallery included; a warning is an error."""
    session.install(".[all]", *_group("docs"))
    session.run("sphinx-build", "-W", "--keep-going", "-b", "html", "docs", "docs/_build/html", *session.posargs)


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
