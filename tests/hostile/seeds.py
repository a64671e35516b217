"""Small valid files, as keys and bytes, that between them have everything a reader has code for."""

import json
import pickle
import warnings
from functools import cache
from typing import Any

import numcodecs
import numpy as np
from hdmf.build import GroupBuilder, LinkBuilder, ReferenceBuilder

from hdmf_zarr_backend import ZarrDataIO
from tests import trees

Files = dict[str, bytes]


def tree() -> GroupBuilder:
    numbers = np.arange(24, dtype="i2").reshape(6, 4)
    target = trees.dataset("target", np.arange(5.0), attributes={"object_id": "11111111", "unit": "V"})
    inner = trees.group("inner", target, neurodata_type="Box", object_id="22222222", lengths=np.arange(3, dtype="u1"))
    root = trees.root(
        inner, trees.dataset("plain", ZarrDataIO(numbers, chunks=(4, 4), compressor=False)),
        trees.dataset("squeezed", ZarrDataIO(numbers, chunks=(3, 2))),
        trees.dataset("zstandard", ZarrDataIO(numbers, compressor=numcodecs.Zstd(1))),
        trees.dataset("texts", ["a", "bc", "", "\u00e9t\u00e9"]), trees.dataset("scalar", 3.5),
        trees.dataset("word", "text"), trees.dataset("flags", np.array([True, False, True])), namespace="demo",
        object_id="00000000", empty=np.zeros(0, "f4"), nan=float("nan"), words=["x", "y"],
    )  # fmt: skip
    root.set_attribute("to", ReferenceBuilder(target))
    references = [ReferenceBuilder(target), ReferenceBuilder(inner), ReferenceBuilder(target)]
    root.set_dataset(trees.dataset("references", references, "object"))
    rows = [(1, ReferenceBuilder(target)), (2, ReferenceBuilder(inner))]
    words = [{"name": "n", "dtype": "int32"}, {"name": "to", "dtype": {"target_type": "Box", "reftype": "object"}}]
    root.set_dataset(trees.dataset("rows", rows, words))
    root.set_link(LinkBuilder(builder=inner, name="link"))
    return root


def written(zarr_format: int) -> Files:
    files: Files = {}
    with warnings.catch_warnings(action="ignore"):
        trees.write_builder(files, tree(), zarr_format=zarr_format)
    return files


def listed(zarr_format: int) -> Files:
    """Return the same without the consolidated document."""
    files = written(zarr_format)
    if zarr_format == 2:
        del files[".zmetadata"]
    else:
        document = json.loads(files["zarr.json"])
        del document["consolidated_metadata"]
        files["zarr.json"] = json.dumps(document).encode()
    return files


def of_others() -> Files:
    """Return what hdmf-zarr 0.13 and netCDF have and we do not write: pickles, filters, bzip2 and its like."""
    values = np.arange(32, dtype="<i4")
    reference = {"source": ".", "path": "/numbers", "object_id": None, "source_object_id": None}
    objects = np.empty(2, object)
    objects[:] = [reference, reference]
    texts = np.array(["a", "bc"], dtype=object)
    files: Files = {".zgroup": _json({"zarr_format": 2}), ".zattrs": _json({"zarr_link": _links()})}
    shuffle = numcodecs.Shuffle(4)
    # name -> type of elements, filters, compressor, chunk, zarr_dtype
    arrays: dict[str, tuple[Any, ...]] = {
        name: ("<i4", None, codec.get_config(), codec.encode(values), None)
        for name, codec in {"numbers": numcodecs.Zlib(1), "gzip": numcodecs.GZip(1), "bz2": numcodecs.BZ2(1),
                            "lzma": numcodecs.LZMA(), "lz4": numcodecs.LZ4()}.items()
    } | {
        "sums": ("<i4", [{"id": "crc32"}], None, numcodecs.CRC32().encode(values), None),
        "shuffled": ("<i4", [shuffle.get_config()], {"id": "zlib", "level": 1},
                     numcodecs.Zlib(1).encode(shuffle.encode(values)), None),
        "references": ("|O", [{"id": "pickle", "protocol": 5}], None, pickle.dumps(objects, 5), "object"),
        "texts": ("|O", [{"id": "vlen-utf8"}], None, numcodecs.VLenUTF8().encode(texts), "str"),
        "json": ("|O", [{"id": "json2"}], None, numcodecs.JSON().encode(texts), None),
    }  # fmt: skip
    for name, (dtype, filters, compressor, chunk, text) in arrays.items():
        length = len(values) if dtype == "<i4" else 2
        document = {"shape": [length], "chunks": [length], "dtype": dtype, "filters": filters, "order": "C"}
        files[f"{name}/.zarray"] = _json({**document, "compressor": compressor, "fill_value": 0, "zarr_format": 2})
        files[f"{name}/0"] = bytes(chunk)
        if text is not None:
            files[f"{name}/.zattrs"] = _json({"zarr_dtype": text})
    return files


def _links() -> list[dict[str, str]]:
    return [
        {"name": "here", "source": ".", "path": "/numbers"},
        {"name": "there", "source": "../other.zarr", "path": "/x"},
    ]


def _json(document: Any) -> bytes:
    return json.dumps(document).encode()


@cache
def seeds() -> list[Files]:
    return [written(2), written(3), listed(2), listed(3), of_others()]
