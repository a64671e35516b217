"""Zarr I/O for HDMF and NWB files."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hdmf_zarr_backend.extras import check_required

check_required()  # one error, not another one at each first use

__version__ = "0.1.0"

__all__ = [
    "EditableArray",
    "LazyArray",
    "Limits",
    "NWBZarrIO",
    "ReadOptions",
    "RegionReference",
    "WriteOptions",
    "ZarrBackendError",
    "ZarrDataIO",
    "ZarrIO",
    "ZarrReference",
    "__version__",
    "compare",
    "consolidate",
    "convert",
    "dry_run",
    "enable_legacy_files",
    "repair",
    "upgrade",
    "validate",
    "verify",
]

if TYPE_CHECKING:
    from hdmf_zarr_backend.arrays.lazy import LazyArray
    from hdmf_zarr_backend.arrays.zarr_legacy import enable_legacy_files
    from hdmf_zarr_backend.changes.editable import EditableArray
    from hdmf_zarr_backend.checks.repair import consolidate, repair
    from hdmf_zarr_backend.checks.validate import validate
    from hdmf_zarr_backend.checks.verify import verify
    from hdmf_zarr_backend.comparison import compare
    from hdmf_zarr_backend.conversion.convert import convert
    from hdmf_zarr_backend.conversion.dryrun import dry_run
    from hdmf_zarr_backend.conversion.upgrade import upgrade
    from hdmf_zarr_backend.dataio import ZarrDataIO
    from hdmf_zarr_backend.errors import ZarrBackendError
    from hdmf_zarr_backend.formats.references import ZarrReference
    from hdmf_zarr_backend.formats.regions import RegionReference
    from hdmf_zarr_backend.io import ZarrIO
    from hdmf_zarr_backend.nwb import NWBZarrIO
    from hdmf_zarr_backend.options import Limits, ReadOptions, WriteOptions

# loaded on first use: the command line must not pay for importing hdmf and zarr
_MODULES = {
    "EditableArray": "changes.editable",
    "LazyArray": "arrays.lazy",
    "Limits": "options",
    "NWBZarrIO": "nwb",
    "ReadOptions": "options",
    "RegionReference": "formats.regions",
    "WriteOptions": "options",
    "ZarrBackendError": "errors",
    "ZarrDataIO": "dataio",
    "ZarrIO": "io",
    "ZarrReference": "formats.references",
    "compare": "comparison",
    "consolidate": "checks.repair",
    "convert": "conversion.convert",
    "dry_run": "conversion.dryrun",
    "enable_legacy_files": "arrays.zarr_legacy",
    "repair": "checks.repair",
    "upgrade": "conversion.upgrade",
    "validate": "checks.validate",
    "verify": "checks.verify",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
