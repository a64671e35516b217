"""Zarr I/O for HDMF and NWB files."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hdmf_zarr_backend.extras import check_required

check_required()  # one error, not another one at each first use

__version__ = "0.1.0"

__all__ = [
    "Limits",
    "NWBZarrIO",
    "ReadOptions",
    "WriteOptions",
    "ZarrBackendError",
    "ZarrDataIO",
    "ZarrIO",
    "__version__",
    "compare",
    "consolidate",
    "convert",
    "dry_run",
    "read_nwb",
    "repair",
    "report",
    "upgrade",
    "validate",
    "verify",
]

if TYPE_CHECKING:
    from hdmf_zarr_backend.check.repair import consolidate, repair
    from hdmf_zarr_backend.check.validate import validate
    from hdmf_zarr_backend.check.verify import verify
    from hdmf_zarr_backend.comparison import compare
    from hdmf_zarr_backend.conversion import convert
    from hdmf_zarr_backend.dryrun import dry_run
    from hdmf_zarr_backend.errors import ZarrBackendError
    from hdmf_zarr_backend.hdmf.dataio import ZarrDataIO
    from hdmf_zarr_backend.io import ZarrIO
    from hdmf_zarr_backend.nwb import NWBZarrIO
    from hdmf_zarr_backend.options import Limits, ReadOptions, WriteOptions
    from hdmf_zarr_backend.reading import read_nwb
    from hdmf_zarr_backend.reporting.page import report
    from hdmf_zarr_backend.upgrading import upgrade

# loaded on first use: the command line must not pay for importing hdmf and zarr
_MODULES = {
    "Limits": "options",
    "NWBZarrIO": "nwb",
    "ReadOptions": "options",
    "WriteOptions": "options",
    "ZarrBackendError": "errors",
    "ZarrDataIO": "hdmf.dataio",
    "ZarrIO": "io",
    "compare": "comparison",
    "consolidate": "check.repair",
    "convert": "conversion",
    "dry_run": "dryrun",
    "read_nwb": "reading",
    "repair": "check.repair",
    "report": "reporting.page",
    "upgrade": "upgrading",
    "validate": "check.validate",
    "verify": "check.verify",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
