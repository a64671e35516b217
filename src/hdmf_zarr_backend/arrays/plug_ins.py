"""Codecs of other packages: those that are registered with numcodecs, by a call or by an installed entry point.

Such a codec is code that this package does not know. So its errors, of whatever class, are translated here, in one
place, and it never decodes into memory of the caller: what it returns is checked like the bytes of a file.

Source: numcodecs, ``numcodecs.registry``; zarr-python, for the arrays that a codec receives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numcodecs
from numcodecs import registry

from hdmf_zarr_backend.errors import MetadataError, UnsafeDataError

_NO_PLUG_INS = frozenset({"numcodecs", "zarr", "hdmf_zarr_backend"})
"""Packages whose codecs are used by the list in `arrays.codecs` only: some of the others unpickle."""

_PICKLE_NAMES = frozenset({"pickle", "numcodecs.pickle"})

PACKAGES = {"flac": "flac-numcodecs", "wavpack": "wavpack-numcodecs"}
"""The packages of codecs with which large recordings are stored, for the advice of an error."""


class PlugInError(ValueError):
    """A codec of another package raised an error; the message names the codec and the class of that error."""


class PlugIn:
    """A codec of another package, whose errors are a `PlugInError`."""

    def __init__(self, codec_id: str, codec: Any) -> None:
        self.codec_id = codec_id
        self.codec = codec

    def encode(self, buf: Any) -> Any:
        """Return the encoded form of ``buf``."""
        return self._call(self.codec.encode, buf)

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Return the decoded form of ``buf`` in memory of its own; ``out`` is not used."""
        return self._call(self.codec.decode, buf)

    def _call(self, method: Callable[[Any], Any], buf: Any) -> Any:
        try:
            return method(buf)
        except Exception as error:
            raise PlugInError(f"the codec {self.codec_id!r} raised {type(error).__name__}: {error}") from error


def make_plug_in(config: Mapping[str, Any]) -> Any:
    """Return the codec of another package for a configuration, None if none is registered or installed."""
    codec_id = config.get("id")
    found = _class_of(codec_id) if isinstance(codec_id, str) else None
    if found is None:
        return None
    _check_inner_codecs(config)
    try:
        return found.from_config({key: value for key, value in config.items() if key != "id"})
    except Exception as error:
        raise MetadataError(
            f"the codec {codec_id!r} cannot have the configuration {dict(config)!r} ({type(error).__name__}: {error})",
            remedy="Install the release of its package that wrote this; else run `zarrio verify`.",
        ) from error


def _class_of(codec_id: str) -> Any:
    """Return the class that numcodecs would use for an id of another package, None without one."""
    found: Any = registry.codec_registry.get(codec_id)
    if found is None and codec_id in registry.entries:
        entry: Any = registry.entries[codec_id]
        try:
            found = entry.load()
        except Exception as error:
            problem = f"the codec {codec_id!r} of {entry.value!r} cannot be imported ({type(error).__name__}: {error})"
            raise MetadataError(problem, remedy="Repair or reinstall the package that has it.") from error
        registry.register_codec(found, codec_id=codec_id)
    return None if found is None or not _is_foreign(found) else found


def _is_foreign(codec_class: Any) -> bool:
    package = str(getattr(codec_class, "__module__", "")).partition(".")[0]
    unpickles = isinstance(codec_class, type) and issubclass(codec_class, numcodecs.Pickle)
    return package not in _NO_PLUG_INS and not unpickles


def _check_inner_codecs(config: Mapping[str, Any]) -> None:
    """Refuse a configuration with ``pickle`` in it: some codecs make others from their configuration."""
    pending: list[Any] = [value for key, value in config.items() if key != "id"]
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            pending += value.values()
        elif isinstance(value, (list, tuple)):
            pending += value
        elif isinstance(value, str) and value in _PICKLE_NAMES:
            problem = f"the codec {config['id']!r} is configured with the codec 'pickle', which would run code"
            raise UnsafeDataError(problem, remedy="Do not trust this file; nothing of it was run.")


def registered_plug_ins() -> dict[str, Any]:
    """Return the classes of other packages that are registered in this process, by id, for its workers."""
    classes = cast(Mapping[str, Any], registry.codec_registry)
    return {codec_id: found for codec_id, found in classes.items() if _is_foreign(found)}


def register_plug_ins(classes: Mapping[str, Any]) -> None:
    """Register classes of `registered_plug_ins` in this process."""
    for codec_id, found in classes.items():
        registry.register_codec(found, codec_id=codec_id)
