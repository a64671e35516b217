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

    def open_url(self, url: str) -> Any:
        """Return the I/O object of a file that a web server has, open for reading."""

    def wrap(self, data: Any, chunks: tuple[int, ...]) -> Any:
        """Return ``data`` with these chunks and Blosc zstd 5 with byte shuffle (HDF5: gzip 4)."""


class OursBackend:
    """The classes of this package."""

    suffix = ".zarr"

    def open(self, path: Path, mode: str) -> Any:
        """Return the open I/O object."""
        from hdmf_zarr_backend import NWBZarrIO

        return NWBZarrIO(str(path), mode)

    def open_url(self, url: str) -> Any:
        """Return the open I/O object."""
        for name in ("obstore", "fsspec"):
            if find_spec(name) is not None:
                break
        else:
            raise UnsupportedError("obstore is not installed (the extra `remote`)")
        from hdmf_zarr_backend import NWBZarrIO

        return NWBZarrIO(url, "r")

    def open_format_3(self, path: Path) -> Any:
        """Return the I/O object of a new file of Zarr format 3."""
        from hdmf_zarr_backend import NWBZarrIO
        from hdmf_zarr_backend.errors import UsageError

        try:
            return NWBZarrIO(str(path), "w", zarr_format=3)
        except (TypeError, UsageError) as error:
            raise UnsupportedError("format 3 is not written yet") from error

    def wrap(self, data: Any, chunks: tuple[int, ...]) -> Any:
        """Return ``data`` with its storage options."""
        from numcodecs import Blosc

        from hdmf_zarr_backend import ZarrDataIO

        return ZarrDataIO(data, chunks=chunks, compressor=Blosc(cname="zstd", clevel=5, shuffle=Blosc.SHUFFLE))


class Peer013Backend:
    """hdmf-zarr 0.13 on zarr 2."""

    suffix = ".zarr"

    def open(self, path: Path, mode: str) -> Any:
        """Return the open I/O object."""
        from hdmf_zarr import NWBZarrIO

        return NWBZarrIO(str(path), mode=mode)

    def open_url(self, url: str) -> Any:
        """Return the open I/O object."""
        from hdmf_zarr import NWBZarrIO

        return NWBZarrIO(url, mode="r")

    def wrap(self, data: Any, chunks: tuple[int, ...]) -> Any:
        """Return ``data`` with its storage options."""
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

    def open_url(self, url: str) -> Any:
        """Return the open I/O object."""
        from hdmf_zarr import NWBZarrIO

        return NWBZarrIO(url, mode="r")

    def wrap(self, data: Any, chunks: tuple[int, ...]) -> Any:
        """Return ``data`` with its storage options."""
        from hdmf_zarr import ZarrDataIO
        from zarr.codecs import BloscCodec

        return ZarrDataIO(data=data, chunks=chunks, compressors=BloscCodec(cname="zstd", clevel=5, shuffle="shuffle"))


class Hdf5Backend:
    """pynwb's own backend."""

    suffix = ".nwb"

    def open(self, path: Path, mode: str) -> Any:
        """Return the open I/O object."""
        from pynwb import NWBHDF5IO

        return NWBHDF5IO(str(path), mode)

    def open_url(self, url: str) -> Any:
        """Return the open I/O object."""
        import h5py
        from pynwb import NWBHDF5IO

        for name in ("fsspec", "aiohttp"):
            if find_spec(name) is None:
                raise UnsupportedError(f"{name} is not installed (the extra `remote`)")
        import fsspec

        return NWBHDF5IO(file=h5py.File(fsspec.open(url, "rb").open(), "r"))

    def wrap(self, data: Any, chunks: tuple[int, ...]) -> Any:
        """Return ``data`` with its storage options."""
        from pynwb import H5DataIO

        return H5DataIO(data, chunks=chunks, compression="gzip", compression_opts=4)


BACKENDS: dict[str, type[Backend]] = {
    "ours": OursBackend,
    "hdmf-zarr 0.13": Peer013Backend,
    "hdmf-zarr 0.14": Peer014Backend,
    "HDF5": Hdf5Backend,
}
