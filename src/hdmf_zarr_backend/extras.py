"""The libraries that this package needs, and those of its extras, with the commands that install them.

Source: ``pyproject.toml``; tests compare its dependencies with `REQUIRED`, and its extras with `EXTRAS`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

REQUIRED = ("hdmf", "zarr", "numcodecs", "numpy", "filelock")
"""The libraries without which nothing works."""

EXTRAS = {
    "nwb": ("pynwb",),
    "cli": ("tqdm", "shtab"),
    "remote": ("obstore", "fsspec", "aiohttp"),
    "dask": ("dask", "distributed"),
    "hdf5": ("h5py", "hdf5plugin"),
    "zom": ("pydantic", "pydantic-zarr"),
    "fast": ("orjson",),
    "xarray": ("xarray", "dask"),
}
"""The libraries of each extra, by the names with which pip installs them."""

DISTRIBUTION = "hdmf-zarr-backend"


def check_required() -> None:
    """Make sure that the required libraries are installed, without importing them."""
    # `find_spec` finds a library in a millisecond; importing hdmf and zarr takes seconds. A module in sys.modules may
    # be a stand-in without a spec, for which `find_spec` raises.
    missing = [name for name in REQUIRED if sys.modules.get(name) is None and find_spec(name) is None]
    if missing:
        command = f"pip install {DISTRIBUTION if _is_installed() else ' '.join(missing)}"
        problem = f"hdmf_zarr_backend needs {', '.join(missing)}; install what is missing with: {command}"
        raise ModuleNotFoundError(problem, name=missing[0])


@contextmanager
def library_of(extra: str, what: str) -> Iterator[None]:
    """Name the extra, and ``what`` needs it, where a library that the block imports is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        # the name is that of the module: hdf5plugin, pydantic_zarr, dask.array
        library = (error.name or "").partition(".")[0].replace("_", "-")
        if library not in EXTRAS[extra]:
            raise  # an installed library is broken
        problem = f"{what} needs {library}; install it with: {install_command(extra)}"
        raise ModuleNotFoundError(problem, name=error.name) from error


def install_command(extra: str) -> str:
    """Return the command that installs an extra."""
    # By name only if pip knows this package here under it; a package of that name on an index need not be this one.
    return f"pip install '{DISTRIBUTION}[{extra}]'" if _is_installed() else f"pip install {' '.join(EXTRAS[extra])}"


def _is_installed() -> bool:
    """Tell whether the installed distribution of that name, if there is one, is this package: its program is ours."""
    from importlib.metadata import PackageNotFoundError, distribution  # slow to import, and for errors only

    # the name is not reserved: an unrelated project could have it on an index, or on this machine
    try:
        programs = distribution(DISTRIBUTION).entry_points
    except PackageNotFoundError:
        return False
    return any(program.value.partition(".")[0] == __package__ for program in programs)


def extra_of(library: str | None) -> str | None:
    """Return the extra that installs a library, None if none does."""
    name = (library or "").partition(".")[0].replace("_", "-")
    return next((extra for extra, libraries in EXTRAS.items() if name in libraries), None)
