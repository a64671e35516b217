"""References to objects and to regions of datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hdmf_zarr_backend.encoding.kind import Convert, Kind, each
from hdmf_zarr_backend.model.element import REFERENCE, REGION, Reference

if TYPE_CHECKING:
    import numpy as np

    from hdmf_zarr_backend.encoding.kind import Array


class References(Kind[Reference]):
    """References. Their notes are ``"object"`` and ``"region"``."""

    elements = (Reference,)
    keys = ("object", "region")
    hdf5_classes = ("REFERENCE",)

    def to_hdmf(self, element: Reference) -> str:
        return "object"

    def label(self, element: Reference) -> str:
        return element.kind

    def in_zarr(self, element: Reference) -> str:
        return REFERENCE.kind

    def from_note(self, note: Any, depth: int) -> Reference:
        return REGION if note == "region" else REFERENCE

    def to_note(self, element: Reference) -> str:
        return "region" if element.is_region else "object"

    def from_hdf5(self, tid: Any) -> Reference:
        import h5py

        return REGION if h5py.check_ref_dtype(tid.dtype) is h5py.RegionReference else REFERENCE

    def to_hdf5(self, element: Reference) -> Any:
        from h5py import h5t

        return h5t.STD_REF_DSETREG if element.is_region else h5t.STD_REF_OBJ

    def encoder(self, element: Reference, refer: Convert) -> Convert:
        return refer

    def decoder(self, element: Reference, dtype: np.dtype[Any], refer: Convert) -> Convert:
        return refer

    def plain(self, values: Array, element: Reference, resolve: Convert) -> Array:
        return each(values, resolve)
