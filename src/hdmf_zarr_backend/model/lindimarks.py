"""Marks on the nodes of a file of LINDI: what its words mean for reading, where our own words have nothing for it.

The mapping makes them, and whoever reads chunks heeds them; they are written to no file.

Source: LINDI, "Special Zarr annotations".
"""

from __future__ import annotations

from typing import Any

from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes

EXTERNAL = "_EXTERNAL_ARRAY_LINK"
"""LINDI's attribute of an array whose values are in an HDF5 file only; its mark among the ``extra`` of a node."""

CELLS = "lindi"
"""In the configuration of ``json2``: the number of fields where elements are rows, else 0; references are wrapped."""


def mark_external(node: ArrayNode[Attributes], link: Any) -> None:
    """Let a node say that its values are elsewhere; ``link`` is LINDI's attribute."""
    node.extra = {**node.extra, EXTERNAL: link}


def external_of(node: ArrayNode[Attributes]) -> tuple[str, str] | None:
    """Return the URL of the file that has the values of an array, and the dataset in it; None where they are here."""
    if EXTERNAL not in node.extra:
        return None
    link = node.extra[EXTERNAL]
    said = link if isinstance(link, dict) else {}
    return str(said.get("url", "an unknown file")), str(said.get("name", "of an unknown name"))
