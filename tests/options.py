"""Options as tests are parametrized by them, one by one, made to the arguments that functions take."""

from dataclasses import fields
from typing import Any

from hdmf_zarr_backend.options import ReadOptions, WriteOptions

_CLASSES: dict[str, type[ReadOptions | WriteOptions]] = {"read_options": ReadOptions, "write_options": WriteOptions}


def arguments(**flat: Any) -> dict[str, Any]:
    """Return ``flat`` with the fields of `ReadOptions` and `WriteOptions` in ``read_options`` and ``write_options``."""
    for argument, options in _CLASSES.items():
        names = [entry.name for entry in fields(options) if entry.name in flat]
        if names:
            flat[argument] = options(**{name: flat.pop(name) for name in names})
    return flat
