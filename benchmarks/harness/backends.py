"""The I/O classes of the engines behind one face. Each is imported in the interpreter that has it, and nowhere else."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from benchmarks.harness.job import UnsupportedError


class Backend(Protocol):
    """I/O classes for NWB files.

    Attributes
    ----------
    suffix : str
        Of its files.
    """

    suffix: str

    def open(self, path: Path, mode: str) -> Any:
        """Return the open I/O object."""

    def open_url(self, url: str, mode: str = "r", options: dict[str, Any] | None = None) -> Any:
        """Return the I/O object of a file that a server has; ``options`` are s3fs's."""

    def wrap(self, data: Any, chunks: tuple[int, ...], shards: tuple[int, ...] | None = None) -> Any:
        """Return ``data`` with these chunks and shards, and Blosc zstd 5 with byte shuffle (HDF5: gzip 4)."""


class OursBackend:
    """The classes of this package, which write format 2 if nothing else is said."""

    suffix = ".zarr"
    zarr_format = 2

    def open(self, path: Path, mode: str) -> Any:
        """Return the open I/O object."""
        return self._open(str(path), mode)

    def open_url(self, url: str, mode: str = "r", options: dict[str, Any] | None = None) -> Any:
        """Return the open I/O object."""
        for name in ("obstore", "fsspec"):
            if find_spec(name) is not None:
                break
        else:
            raise UnsupportedError("obstore is not installed (the extra `remote`)")
        return self._open(url, mode, storage_options=options)

    def _open(self, place: str, mode: str, **options: Any) -> Any:
        from hdmf_zarr_backend import NWBZarrIO

        if mode == "w":
            options["zarr_format"] = self.zarr_format
        return NWBZarrIO(place, mode, **options)

    def wrap(self, data: Any, chunks: tuple[int, ...], shards: tuple[int, ...] | None = None) -> Any:
        """Return ``data`` with its storage options."""
        from numcodecs import Blosc

        from hdmf_zarr_backend import ZarrDataIO

        codec = Blosc(cname="zstd", clevel=5, shuffle=Blosc.SHUFFLE)
        return ZarrDataIO(data, chunks=chunks, shards=shards, compressor=codec)


class Ours3Backend(OursBackend):
    """The classes of this package, writing format 3."""

    zarr_format = 3


class Peer013Backend:
    """hdmf-zarr 0.13 on zarr 2."""

    suffix = ".zarr"

    def open(self, path: Path, mode: str) -> Any:
        """Return the open I/O object."""
        from hdmf_zarr import NWBZarrIO

        return NWBZarrIO(str(path), mode=mode)

    def open_url(self, url: str, mode: str = "r", options: dict[str, Any] | None = None) -> Any:
        """Return the open I/O object."""
        from hdmf_zarr import NWBZarrIO

        return NWBZarrIO(url, mode=mode, storage_options=options)

    def wrap(self, data: Any, chunks: tuple[int, ...], shards: tuple[int, ...] | None = None) -> Any:
        """Return ``data`` with its storage options."""
        if shards is not None:
            raise UnsupportedError("format 2 has no shards")
        from hdmf_zarr import ZarrDataIO
        from numcodecs import Blosc

        return ZarrDataIO(data=data, chunks=chunks, compressor=Blosc(cname="zstd", clevel=5, shuffle=Blosc.SHUFFLE))


class Peer014Backend:
    """hdmf-zarr 0.14 on zarr 3."""

    suffix = ".zarr"

    def open(self, path: Path, mode: str) -> Any:
        """Return the open I/O object."""
        from hdmf_zarr import NWBZarrIO

        return NWBZarrIO(str(path), mode=mode)

    def open_url(self, url: str, mode: str = "r", options: dict[str, Any] | None = None) -> Any:
        """Return the open I/O object."""
        from hdmf_zarr import NWBZarrIO

        return NWBZarrIO(url, mode=mode, storage_options=options)

    def wrap(self, data: Any, chunks: tuple[int, ...], shards: tuple[int, ...] | None = None) -> Any:
        """Return ``data`` with its storage options."""
        from hdmf_zarr import ZarrDataIO
        from zarr.codecs import BloscCodec

        codec = BloscCodec(cname="zstd", clevel=5, shuffle="shuffle")
        sharded = {} if shards is None else {"shards": shards}
        return ZarrDataIO(data=data, chunks=chunks, compressors=codec, **sharded)


class Hdf5Backend:
    """pynwb's own backend."""

    suffix = ".nwb"

    def open(self, path: Path, mode: str) -> Any:
        """Return the open I/O object."""
        from pynwb import NWBHDF5IO

        return NWBHDF5IO(str(path), mode)

    def open_url(self, url: str, mode: str = "r", options: dict[str, Any] | None = None) -> Any:
        """Return the open I/O object."""
        import h5py
        from pynwb import NWBHDF5IO

        for name in ("fsspec", "aiohttp"):
            if find_spec(name) is None:
                raise UnsupportedError(f"{name} is not installed (the extra `remote`)")
        import fsspec

        return NWBHDF5IO(file=h5py.File(fsspec.open(url, "rb").open(), "r"))

    def wrap(self, data: Any, chunks: tuple[int, ...], shards: tuple[int, ...] | None = None) -> Any:
        """Return ``data`` with its storage options."""
        if shards is not None:
            raise UnsupportedError("HDF5 has no shards")
        from pynwb import H5DataIO

        return H5DataIO(data, chunks=chunks, compression="gzip", compression_opts=4)


BACKENDS: dict[str, type[Backend]] = {
    "ours": OursBackend,
    "ours format 3": Ours3Backend,
    "hdmf-zarr 0.13": Peer013Backend,
    "hdmf-zarr 0.14": Peer014Backend,
    "HDF5": Hdf5Backend,
}

VARIANTS = frozenset({"ours format 3"})
"""They take part only where a phase names them."""
