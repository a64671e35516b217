"""The package under the name ``hdmf_zarr``, for code that imports a module of that name; only on request.

Standard library only: a process that never imports ``hdmf_zarr`` loads neither hdmf nor zarr for it.

Source: ``importlib.abc.MetaPathFinder``; ``importlib.metadata.DistributionFinder``; "Core metadata specifications"
(packaging.python.org).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Literal

import hdmf_zarr_backend.errors
from hdmf_zarr_backend.errors import UsageError, known_arguments
from hdmf_zarr_backend.options import name_format

__all__ = ["install_hdmf_zarr_alias"]

NAME = "hdmf_zarr"

SUBMODULES = ("backend", "backend_zarrv2", "nwb", "nwb_zarrv2", "utils", "zarr_utils")

# programs compare it with 0.13 or 0.14; after the plus sign, a local version (PEP 440) counts as equal
VERSION = f"0.13.0+hdmf.zarr.backend.{hdmf_zarr_backend.__version__}"
"""The release of hdmf-zarr whose files are written by default, and the version of this package."""


class AliasRefusedError(UsageError, ImportError):
    """A real hdmf_zarr exists, and two packages cannot have one name."""


# A finder, and no package of that name: pip would replace hdmf-zarr, or be replaced by it, in whatever order.
class AliasFinder(MetaPathFinder, Loader):
    """Finds the modules ``hdmf_zarr`` and ``hdmf_zarr.*`` of this package, and the distribution ``hdmf-zarr``."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of the alias, None for other modules."""
        package, _, name = fullname.partition(".")
        if package != NAME or (name and name not in SUBMODULES):
            return None
        return ModuleSpec(fullname, self, origin=__file__, is_package=not name)

    def exec_module(self, module: ModuleType) -> None:
        """Add the members to a module; the package has its submodules as attributes, like hdmf-zarr."""
        from hdmf_zarr_backend.alias.names import members_of  # on use: it imports hdmf, zarr and pynwb

        name = module.__name__.partition(".")[2]
        members = members_of(name)
        module.__doc__ = "A part of hdmf_zarr_backend under its name in hdmf-zarr."
        # programs print where hdmf_zarr comes from, and must not be told that it is hdmf-zarr
        module.__file__ = __file__
        vars(module).update(members)
        vars(module)["__all__"] = sorted(members)
        if not name:
            vars(module)["__version__"] = VERSION
            for submodule in SUBMODULES:
                import_module(f"{NAME}.{submodule}")

    def find_distributions(self, context: Any) -> Iterable[Any]:
        """Return the distribution of the alias if ``importlib.metadata`` looks for hdmf-zarr or for all."""
        if context.name is not None and re.sub(r"[-_.]+", "-", context.name).lower() != "hdmf-zarr":
            return []
        from importlib.metadata import Distribution  # slow to import, and few programs ask
        from pathlib import Path

        class AliasDistribution(Distribution):
            def read_text(self, filename: str) -> str | None:
                metadata = f"Metadata-Version: 2.1\nName: hdmf_zarr\nVersion: {VERSION}\n"
                return {"METADATA": metadata, "top_level.txt": "hdmf_zarr\n"}.get(filename)

            def locate_file(self, path: str | os.PathLike[str]) -> Any:
                return Path(__file__).parent / path

        return [AliasDistribution()]


def add_finder() -> None:
    """Insert an `AliasFinder` before all other finders, unless one exists."""
    # first: an installed hdmf-zarr would be found otherwise
    if not _is_installed():
        sys.meta_path.insert(0, AliasFinder())


def _is_installed() -> bool:
    return any(isinstance(finder, AliasFinder) for finder in sys.meta_path)


@known_arguments
def install_hdmf_zarr_alias(*, replace: bool = False, zarr_format: Literal[2, 3, "both"] | None = None) -> None:
    """Let ``import hdmf_zarr`` find this package, in this process.

    Afterwards ``pynwb.read_nwb``, ``pynwb.validate(path=...)``, neuroconv, SpikeInterface, nwbinspector and code that
    was written for hdmf-zarr read and write Zarr files with this package. ``importlib.metadata`` gives the version
    ``0.13.0+hdmf.zarr.backend.<version of this package>`` for hdmf-zarr, as ``hdmf_zarr.__version__`` does. Plain
    zarr 3 opens old files with pickles, as after `enable_legacy_files`. A second call sets the format only.

    Parameters
    ----------
    replace : bool
        Replace an installed hdmf-zarr in this process. It stays installed, and other processes find it.
    zarr_format : {2, 3, "both"}, optional
        Format of the files that this process, and the processes that it starts, create without naming a format. It is
        stored in the environment variable ``HDMF_ZARR_BACKEND_FORMAT``. None: keep that, or 2 if it is not set.

    Raises
    ------
    UsageError
        There is no such format.
    AliasRefusedError
        hdmf-zarr is installed and ``replace`` is False, or it has been imported already.

    Examples
    --------
    >>> from hdmf_zarr_backend.alias import install_hdmf_zarr_alias
    >>> install_hdmf_zarr_alias(replace=True)
    >>> import pynwb
    >>> nwbfile = pynwb.read_nwb("a.nwb.zarr")  # doctest: +SKIP
    """
    if not _is_installed():
        # classes of hdmf-zarr that a program holds already would not be those of this package
        imported = sys.modules.get(NAME)
        if imported is not None:
            problem = f"hdmf_zarr was already imported, from {getattr(imported, '__file__', None)}"
            remedy = "Call install_hdmf_zarr_alias(replace=True) before the first import of hdmf_zarr, and of pynwb, "
            remedy += "neuroconv and other packages that import it; or start the program with 'zarrio exec'."
            raise AliasRefusedError(problem, remedy=remedy)
        spec = None if replace else find_spec(NAME)
        if spec is not None:
            problem = f"hdmf_zarr is installed, at {spec.origin or spec.submodule_search_locations}"
            remedy = "Uninstall hdmf-zarr, or call install_hdmf_zarr_alias(replace=True) to take its place in this "
            remedy += "process, or use the classes of hdmf_zarr_backend by their own names."
            raise AliasRefusedError(problem, remedy=remedy)
        add_finder()
    if zarr_format is not None:
        name_format(zarr_format)
    from hdmf_zarr_backend.array.zarr_legacy import enable_legacy_files  # imported here: it imports zarr

    enable_legacy_files()
