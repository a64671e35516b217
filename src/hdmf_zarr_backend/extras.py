"""The extras of this package: which optional libraries they install, and with which command.

Source: ``[project.optional-dependencies]`` of ``pyproject.toml``, which a test compares with `EXTRAS`.
"""

from __future__ import annotations

EXTRAS = {
    "nwb": ("pynwb",),
    "cli": ("tqdm", "shtab"),
    "remote": ("obstore", "fsspec", "aiohttp"),
    "dask": ("dask", "distributed"),
    "hdf5": ("h5py", "hdf5plugin"),
    "zom": ("pydantic", "pydantic-zarr"),
    "fast": ("orjson",),
}
"""The libraries of each extra, by the names with which pip installs them."""

DISTRIBUTION = "hdmf-zarr-backend"


def install_command(extra: str) -> str:
    """Return the command that installs an extra.

    It names this package only if pip knows it here under that name: pip then keeps the installed release and adds the
    libraries. Elsewhere, as in a copy of the source, it names the libraries themselves, since a package of that name
    on an index need not be this one.

    Parameters
    ----------
    extra : str
        One of `EXTRAS`.
    """
    return f"pip install '{DISTRIBUTION}[{extra}]'" if _is_installed() else f"pip install {' '.join(EXTRAS[extra])}"


def _is_installed() -> bool:
    """Tell whether the installed distribution of that name, if there is one, is this package: its program is ours."""
    from importlib.metadata import PackageNotFoundError, distribution  # slow to import, and for errors only

    try:
        programs = distribution(DISTRIBUTION).entry_points
    except PackageNotFoundError:
        return False
    return any(program.value.partition(".")[0] == __package__ for program in programs)


def extra_of(library: str | None) -> str | None:
    """Return the extra that installs a library, None if none does."""
    return next((extra for extra, libraries in EXTRAS.items() if library in libraries), None)
