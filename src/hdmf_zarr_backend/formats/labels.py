"""Labels for listings: types of elements, and codecs with what was chosen for them. Standard library only."""

from __future__ import annotations

from typing import Any

from hdmf_zarr_backend.formats.elements import describe_any, hdmf_type
from hdmf_zarr_backend.formats.reserved import notes_of
from hdmf_zarr_backend.model.elements import UTF8, Element
from hdmf_zarr_backend.model.nodes import Attributes, Dataset
from hdmf_zarr_backend.model.stored import StoredArray

_SHUFFLES = {1: "shuffle", 2: "bitshuffle", -1: "autoshuffle"}  # of Blosc


def type_label(node: Dataset[Attributes]) -> str:
    """Return the type of the elements for listings: ``int16``, ``text``, ``reference``, ``{x: int32, to: reference}``.

    An unknown type is shown as in the document.
    """
    found = describe_any(node)
    content = notes_of(node.attributes).get("text")
    if found.form == "objects" and found.stored.kind == "text" and isinstance(content, str):
        return content  # such as isodatetime
    if found.stored == UTF8 and found.itemsize is not None:  # text of fixed length
        return f"text[{found.itemsize // 4}]"
    return element_label(found.stored)


def element_label(element: Element) -> str:
    """Return what a type is called in listings."""
    kind, size = element.kind, element.size
    if kind == "compound":
        return "{" + ", ".join(map(_field_label, element.fields)) + "}"
    if element.base is not None:
        return f"{element_label(element.base)}{list(element.shape)}"
    if kind in ("text", "opaque"):
        name = kind if kind == "opaque" or element.encoding == "utf-8" else "ascii"
        return name if size is None else f"{name}[{size}]"
    if kind in ("reference", "region"):
        return kind
    if kind == "unknown":
        return element.detail
    return f"{hdmf_type(element)}{' big-endian' if element.byte_order == '>' and kind != 'datetime' else ''}"


def _field_label(item: tuple[str, Element]) -> str:
    return f"{item[0]}: {element_label(item[1])}"


def codec_labels(stored: StoredArray) -> list[str]:
    """Return the codecs of an array in the order in which they are applied, each with what was chosen for it."""
    return list(map(_codec_label, stored.codecs))


def _codec_label(config: dict[str, Any]) -> str:
    name = str(config.get("id"))
    shuffle = config.get("shuffle")
    shuffled = _SHUFFLES.get(shuffle, "") if isinstance(shuffle, int) else ""
    chosen = [config.get("cname"), config.get("clevel", config.get("level")), shuffled]
    return " ".join(str(part) for part in [name, *chosen] if part not in (None, ""))
