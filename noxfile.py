"""The single door: tests, lint, types, other programs, documentation, benchmarks.

=====================================  =================================================================================
``nox -s tests``                       while you work: a sample of all tests, in at most ten minutes
``nox -s tests -- tests/contract -k x`` the same in part, and every case of it
``nox -s ci``                          before it is merged: the rest of what decides about a change
``nox -s whole``                       every night: all cases, programs, releases and random searches
=====================================  =================================================================================

``nox -l`` lists all sessions; ``nox -r`` reuses the environments of the last run. Arguments after ``--`` go to the tool
of the session. Each session of tests ends with what it left out, and the session that runs that.
"""

from __future__ import annotations

import os
import shutil
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
nox.options.sessions = ["tests", "ci"]

# What is not imported need not be compiled; the first import compiles the rest.
os.environ.setdefault("PIP_NO_COMPILE", "1")

PYPROJECT = nox.project.load_toml(ROOT / "pyproject.toml")


def _interpreter(*versions: str) -> str | None:
    found = find_python(*versions)
    return str(found) if found else None


OLDEST, NEWEST = _interpreter("3.11"), _interpreter("3.13", "3.12", "3.11")
"""Interpreters; where there is none of a known version, the newest libraries are tried with the one that runs nox."""

ZARR_BETWEEN = ("3.1.5", "3.1.6")
"""Releases of zarr-python between the oldest and the newest: that of dandi, and the last one for Python 3.11."""

LANES = (("lint", "types", "docs"), ("types-oldest", "tests-oldest", "peers"))
"""Sessions of ``ci`` that use one core run side by side; of those in `TESTS`, only the environments are made there."""

TESTS = ("tests-oldest", "peers")

WHOLE = ("full", "full-oldest", "slow", "tests-zarr", "suites", "clients", "bench")
"""What runs at night."""

LEFT_OUT = {
    "slow": "tests that take long (nox -s slow)",
    "peer": "other programs (nox -s peers; all cases: nox -s interop)",
    "corpus": "real NWB files (nox -s peers; all of them: nox -s interop)",
    "hypothesis": "random values (nox -s tests; new ones each time: nox -s slow)",
}
"""What tests with a mark are about, and the session that runs them."""


def _group(name: str) -> tuple[str, ...]:
    return nox.project.dependency_groups(PYPROJECT, name)


def _oldest_releases() -> list[str]:
    """Turn each lower bound that pyproject.toml declares into a pin."""
    project = PYPROJECT["project"]
    extras = project["optional-dependencies"]
    bounds = [*project["dependencies"], *(bound for name, extra in extras.items() if name != "all" for bound in extra)]
    return [bound.replace(">=", "==") for bound in bounds]


def _require_oldest(session: nox.Session) -> None:
    if session.python is None:  # not found, nor named by `--force-python`
        # A job of the continuous checks that runs nothing would pass.
        refuse = session.error if "GITHUB_ACTIONS" in os.environ else session.skip
        refuse("there is no Python 3.11 on this machine")


def _install_newest(session: nox.Session, *groups: str) -> None:
    packages = [package for group in groups for package in _group(group)]
    session.install("--upgrade", ".[all]", *packages, *(_group("test-zarr-3") if "test" in groups else ()))


def _install_oldest(session: nox.Session, *groups: str) -> None:
    _require_oldest(session)
    session.install(".[all]", *_oldest_releases(), *(package for group in groups for package in _group(group)))


def _install_compiled(session: nox.Session) -> None:
    """Install what has to be compiled, if this machine can."""
    session.install(*_group("test-compiled"), success_codes=[0, 1])


def _pytest(session: nox.Session, selection: str, *, cases: int = 0, **env: str) -> None:
    """Run the tests of a selection, ``cases`` of each function (`tests/sampling.py`), unless arguments choose some."""
    # From an installed wheel, not from src/: what the wheel forgets is missed.
    cases = 0 if session.posargs else cases
    env |= {"HDMF_ZARR_BACKEND_SAMPLE": str(cases)} if cases else {}
    options = ("-n", "2", "--dist", "worksteal", "--durations", "20")
    session.run("pytest", *options, "-m", selection, *session.posargs, env=env)
    left_out = [said for mark, said in LEFT_OUT.items() if f"not {mark}" in selection]
    left_out += [f"all cases of a test but {cases} (nox -s full)"] if cases else []
    session.log(f"left out here: {'; '.join(left_out) or 'nothing'}")


def _nox(session: nox.Session, *arguments: str, waits: bool = False) -> bool:
    """Run nox again; what it prints is shown at its end where it runs beside others, which ``waits`` says."""
    command = [sys.executable, "-m", "nox", "--noxfile", __file__, *arguments]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE if waits else None, stderr=subprocess.STDOUT)
    if waits:
        session.log("%s\n%s", " ".join(arguments), done.stdout.decode(errors="replace"))
    return done.returncode == 0


@nox.session(python=NEWEST)
def tests(session: nox.Session) -> None:
    """While you work: two cases of each test, on the newest libraries; all cases of what is named after ``--``."""
    _install_newest(session, "test")
    _pytest(session, "not slow and not peer and not corpus", cases=2)


@nox.session(venv_backend="none")
def ci(session: nox.Session) -> None:
    """Before it is merged, after ``tests``: lint, types, documentation, the oldest libraries, other programs."""

    def lane(names: tuple[str, ...]) -> list[str]:
        options = {name: ["--install-only"] if name in TESTS else [] for name in names}
        return [name for name in names if not _nox(session, *options[name], "-s", name, waits=True)]

    with ThreadPoolExecutor(len(LANES)) as lanes:
        failed = [name for names in lanes.map(lane, LANES) for name in names]
    failed += [name for name in TESTS if name not in failed and not _nox(session, "-R", "-s", name)]
    if failed:
        session.error(f"these have failed: {', '.join(failed)}")


@nox.session(venv_backend="none")
def whole(session: nox.Session) -> None:
    """Every night: all that there is, for hours; the nightly workflow runs the same sessions side by side."""
    if not _nox(session, "-s", *WHOLE):
        session.error("some have failed")


@nox.session
def lint(session: nox.Session) -> None:
    """In ``ci``: style (ruff), workflows by their schema, who imports whom, the language of documents."""
    session.install(".", *_group("lint"))  # the package says at its import what it lacks
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    workflows = sorted(ROOT.glob(".github/workflows/*.yml"))
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *map(str, workflows))
    session.run("lint-imports", "--no-cache", env={"PYTHONPATH": str(ROOT / "src")})
    session.run("pytest", "--noconftest", "tests/test_import_rules.py")
    session.run("python", "docs/_scripts/prose.py")


@nox.session(python=NEWEST)
def types(session: nox.Session) -> None:
    """In ``ci``: strict types with the newest libraries (mypy), and a program of a user (mypy, pyright)."""
    _install_newest(session, "types")
    session.run("mypy", *session.posargs)
    session.run("pytest", "-n", "2", "tests/test_typing.py")


@nox.session(name="types-oldest", python=OLDEST)
def types_oldest(session: nox.Session) -> None:
    """In ``ci``: strict types with the oldest Python and zarr."""
    _require_oldest(session)
    # Only zarr is held back: the annotations of old releases of numpy would be judged, not ours.
    zarr = next(release for release in _oldest_releases() if release.startswith("zarr=="))
    session.install(".[all]", zarr, *_group("types"))
    session.run("mypy", *session.posargs)


@nox.session(name="tests-oldest", python=OLDEST)
def tests_oldest(session: nox.Session) -> None:
    """In ``ci``: one case of each test on the oldest Python and libraries."""
    _install_oldest(session, "test")
    _pytest(session, "not slow and not corpus and not peer and not hypothesis", cases=1)


@nox.session(python=NEWEST)
def peers(session: nox.Session) -> None:
    """In ``ci``: one case of each test with hdmf-zarr, other programs, or real files; makes their environments."""
    _install_newest(session, "test", "test-peers")
    _install_compiled(session)
    session.run_install("python", "-m", "tests.peers")
    _pytest(session, "(peer or corpus) and not slow", cases=1)


@nox.session(python=NEWEST)
def interop(session: nox.Session) -> None:
    """When you change what other programs read: all cases of ``peers``, on every real file."""
    _install_newest(session, "test", "test-peers")
    _pytest(session, "(peer or corpus) and not slow", HDMF_ZARR_BACKEND_EVERY_FILE="1")


@nox.session(python=NEWEST)
def full(session: nox.Session) -> None:
    """At night: all cases of all tests but the slow ones, on every real file."""
    _install_newest(session, "test", "test-peers")
    _install_compiled(session)
    _pytest(session, "not slow", HDMF_ZARR_BACKEND_EVERY_FILE="1")


@nox.session(name="full-oldest", python=OLDEST)
def full_oldest(session: nox.Session) -> None:
    """At night: the same on the oldest Python and libraries."""
    _install_oldest(session, "test", "test-peers")
    _install_compiled(session)
    _pytest(session, "not slow", HDMF_ZARR_BACKEND_EVERY_FILE="1")


@nox.session(python=NEWEST)
def slow(session: nox.Session) -> None:
    """At night, or when you change what survives kills and damage: tests that take long, and new random values."""
    _install_newest(session, "test", "test-peers", "build")
    selection = "slow or (hypothesis and not peer and not corpus)"
    _pytest(session, selection, HDMF_ZARR_BACKEND_EVERY_FILE="1", HDMF_ZARR_BACKEND_HYPOTHESIS="random")


@nox.session(name="tests-zarr", python=NEWEST)
@nox.parametrize("zarr", ZARR_BETWEEN)
def tests_zarr(session: nox.Session, zarr: str) -> None:
    """At night: the sample of ``tests`` on the releases of zarr-python between the oldest and the newest."""
    session.install(".[all]", f"zarr=={zarr}", *_group("test"), *_group("test-zarr-3"))
    _pytest(session, "not slow and not peer and not corpus", cases=2)


@nox.session(python=OLDEST)
def suites(session: nox.Session) -> None:
    """At night: the tests of pynwb, hdmf and hdmf-zarr on this package; prints the counts, names choose some."""
    _require_oldest(session)
    # The suites are those of the oldest releases of pynwb and hdmf that are taken.
    # Some of their tests are skipped without linkml-runtime, which does not import with the oldest pydantic. That of
    # hdmf-zarr calls zarr-python 2 by way of `tests/suites/plugins/zarr2_calls.py`.
    releases = [release for release in _oldest_releases() if not release.startswith(("pydantic", "zarr", "numcodecs"))]
    session.install(".[all]", *releases, *_group("test"), "linkml-runtime>=1.5.5", "scipy>=1.14")
    session.run("python", "-m", "tests.suites", *session.posargs)


@nox.session(python=NEWEST)
def clients(session: nox.Session) -> None:
    """At night: neuroconv, SpikeInterface, dandi and others on these files, each installed beside this package.

    ``-- pynwb`` runs one of them; ``-- --write`` writes docs/reference/clients.md.
    """
    session.run("python", "-m", "pip", "install", "--quiet", "pip", "hatchling")
    session.run("python", "-m", "tests.clients", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """In ``ci``: build the documentation, gallery included, and check its links; a warning is an error."""
    session.install(".[all]", *_group("docs"))
    shutil.rmtree(ROOT / "docs" / "reference" / "api", ignore_errors=True)  # has pages of names that are gone
    # it requires zarr-python 2 before Python 3.14; what the example uses works with 3
    session.install("--no-deps", "spikeinterface>=0.105", "neo", "quantities", "probeinterface", "threadpoolctl")
    session.run("sphinx-build", "-W", "--keep-going", "-b", "html", "docs", "docs/_build/html", *session.posargs)
    session.run("python", "docs/_scripts/links.py", "docs/_build/html")


@nox.session
def bench(session: nox.Session) -> None:
    """At night: the benchmarks in their quick form; ``nox -s bench -- --full`` measures."""
    session.install(".[all]", *_group("bench"))
    scripts = sorted((ROOT / "benchmarks").glob("bench_*.py"))
    if not scripts:
        session.error("there is no benchmarks/bench_*.py")
    options = [option for option in session.posargs if option != "--full"]
    if "--full" not in session.posargs:
        options.append("--quick")
    for script in scripts:
        session.run("python", str(script), *options)


@nox.session(name="bench-before", python=NEWEST)
def bench_before(session: nox.Session) -> None:
    """When you change what takes time: CPU times beside another commit, HEAD~1 or the one that is named.

    Both run on the same machine, in turn, in fresh processes, and ratios are taken in each of five rounds. It fails
    where the median of a job is beyond ``--limit``.
    """
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
    """For a release: build the distributions and check them; a tag that is named must be of this version."""
    version = PYPROJECT["project"]["version"]
    if session.posargs not in ([], [f"v{version}"]):
        session.error(f"the tag {' '.join(session.posargs)} is not v{version}, the version in pyproject.toml")
    session.install(*_group("build"))
    session.run("python", "-m", "build")
    session.run("twine", "check", "--strict", *map(str, sorted((ROOT / "dist").glob(f"*-{version}*"))))
