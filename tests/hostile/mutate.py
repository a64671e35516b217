"""Valid files, spoiled: documents where their structure is, chunks where their headers are, names, links, pickles.

Everything comes from one number, so that a finding is a number too.
"""

import bz2
import gzip
import json
import lzma
import os
import pickle
import random
import struct
import zlib
from contextlib import suppress
from functools import cache
from typing import Any

from tests.hostile.seeds import Files

_DOCUMENTS = (".zgroup", ".zarray", ".zattrs", ".zmetadata", "zarr.json")
_INTERESTING: list[Any] = [
    None, True, 0, -1, 1, 2, 3, 7, 255, 2**31, 2**32 - 1, 2**40, 2**61 - 1, 2**63, 2**64, -(2**63), 10**30, 0.5, 1e308,
    float("nan"), float("inf"), "", ".", "..", "/", "../../etc", "/etc/passwd", "a\0b", "\ud800", "x" * 300, [], {},
    [0], [-1], [2**61], [1, 1, 1], [None], [[]], {"id": "pickle"}, {"id": "blosc"}, {"id": "zlib"}, {"id": "zstd"},
    {"id": "json2"}, {"id": "vlen-utf8"}, {"id": "vlen-bytes"}, {"id": "msgpack2"}, {"id": "bz2"}, {"id": "lzma"},
    {"id": "delta", "dtype": "V1000000000"}, {"id": "astype", "encode_dtype": "u1", "decode_dtype": "U100000000"},
    {"id": "fixedscaleoffset", "dtype": "f8", "astype": "u1", "offset": 0, "scale": 0}, {"id": "packbits"},
    {"id": "shuffle", "elementsize": 2**31}, {"id": "quantize", "digits": 400, "dtype": "f8"}, {"id": "base64"},
    {"id": "categorize", "labels": ["a"], "dtype": "|O"}, {"id": "vlen-array", "dtype": "<i4"}, {"id": "crc32"},
    {"id": "lzma", "format": 3, "filters": [{"id": 0x21, "dict_size": 2**32 - 1}]},
    "|O", "<i4", "<f8", ">i2", "|b1", "|S5", "|S2000000000", "<U4", "<U500000000", "|V8", "<M8[ns]",
    "<m8[10000000000s]",
    "<c16", "|u1", "i4,i4", "O", "(2147483647,)f8", [["a", "<i4"], ["b", "|O"]], [["a", "<i4", [2**40]]],
    [["a", [["a", [["a", "<i4"]]]]]], "object", "region", "scalar", "str", "bytes", "C", "F", "/", "NaN", "AAAA",
    {"zarr_dtype": "object", "value": {"source": ".", "path": "/"}}, {"source": ".", "path": "/inner/target"},
    {"zarr_dtype": "region", "value": {"source": ".", "path": "/plain", "region": [{"slice": [0, 2**62, 1]}]}},
    {"path": "/plain", "region": {"points": [[2**62, 0]]}}, {"name": "link", "source": ".", "path": "/link"},
    {"name": "loop", "source": ".", "path": "/loop"}, {"name": "up", "source": ".", "path": "/"},
    {"name": "out", "source": "../../../../etc", "path": "/"}, {"name": "far", "source": "/etc", "path": "/"},
    {"name": "web", "source": "file:///etc", "path": "/"}, {"name": "web", "source": "memory://x/y", "path": "/"},
    [{"name": f"chain{i}", "source": ".", "path": f"/chain{i + 1}"} for i in range(200)],
    {"types": {"lengths": "<U100000000"}}, {"types": {"lengths": "<i8"}},
    {"attributes": {"words": {"dtype": "|V99999"}}},
    {"attributes": {"words": {"dtype": "<f8", "shape": [2**40], "base64": True}}}, {"maxshape": [None, -5]},
    {"escaped": {"words": "to"}}, {"rows": True}, {"scalar": True}, {"text": "ascii"}, {"version": "9"}, {"doc": True},
    {"name": "sharding_indexed", "configuration": {"chunk_shape": [1], "codecs": [], "index_codecs": []}},
    {"name": "bytes", "configuration": {"endian": "big"}}, {"name": "transpose", "configuration": {"order": [5]}},
    {"name": "zstd", "configuration": {"level": 99}}, {"name": "fixed_length_utf32",
    "configuration": {"length_bytes": 2**40}},
    {"name": "struct", "configuration": {"fields": [["a", "int32"]]}}, {"name": "regular", "configuration": {}},
    "int8", "float64", "string", "variable_length_bytes", "raw64", "numpy.datetime64", "vlen-utf8",
]  # fmt: skip


class _System:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("echo run",)


@cache
def _hostile_bytes() -> list[bytes]:
    """Return chunks that become large, or that would run something."""
    zeros = bytes(2**26)
    return [
        zlib.compress(zeros, 9), gzip.compress(zeros, 9), bz2.compress(zeros, 9), lzma.compress(zeros),
        pickle.dumps(_System(), 5), pickle.dumps([_System()], 2), b"cos\nsystem\n(S'echo run'\ntR.",
        b"\x80\x05\x8e" + (2**40).to_bytes(8, "little"), b"[" * 5000 + b"]" * 5000, b'{"a":' * 3000,
        (2**31).to_bytes(4, "little") + b"\xff" * 16, b"\x28\xb5\x2f\xfd" + b"\xff" * 40,
        struct.pack("<4B3I", 2, 1, 1, 1, 2**31 - 1, 64, 30) + bytes(14),
    ]  # fmt: skip


def mutated(seeds: list[Files], number: int) -> Files:
    """Return one of the ``seeds``, spoiled in one to five ways."""
    rng = random.Random(number)  # noqa: S311 - no secret
    files = dict(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        with suppress(LookupError, ValueError, TypeError, AttributeError, RecursionError):  # it is spoiled too far
            rng.choices((_change_document, _change_bytes, _delete, _rename, _change_consolidated_keys),
                        (50, 30, 6, 6, 8))[0](files, rng)  # fmt: skip
    return files


def _some_key(files: Files, rng: random.Random, *, document: bool) -> str:
    return rng.choice(sorted(key for key in files if not document or key.rpartition("/")[2] in _DOCUMENTS))


def _change_document(files: Files, rng: random.Random) -> None:
    key = _some_key(files, rng, document=True)
    holder = [json.loads(files[key])]
    _change_value(holder, 0, rng)
    files[key] = json.dumps(holder[0]).encode("utf-8", "surrogatepass")


def _change_value(holder: Any, place: Any, rng: random.Random) -> None:
    """Walk down a document by chance, and change what is there."""
    value = holder[place]
    children = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    if children and rng.random() < 0.85:
        _change_value(value, rng.choice(children), rng)
        return
    way = rng.randrange(6)
    if way == 0 and isinstance(holder, dict):
        del holder[place]
    elif way == 1 and isinstance(holder, dict):
        holder[str(rng.choice(_INTERESTING))[:400]] = holder.pop(place)
    elif way == 2:
        holder[place] = [value] * rng.choice((0, 1, 2, 50))
    elif way == 3 and isinstance(value, int) and not isinstance(value, bool):
        holder[place] = value + rng.choice((-1, 1, 2, 1000))
    elif way == 4 and rng.random() < 0.1:
        holder[place] = _nested(rng.choice((50, 300, 900)))
    else:
        holder[place] = rng.choice(_INTERESTING)


def _nested(depth: int) -> Any:
    value: Any = 0
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


def _change_bytes(files: Files, rng: random.Random) -> None:
    key = _some_key(files, rng, document=False)
    data = bytearray(files[key])
    way = rng.randrange(6)
    if way == 0:
        data = data[: rng.randrange(len(data) + 1)]
    elif way == 1:
        data += rng.randbytes(rng.choice((1, 4, 100)))
    elif way == 2 and data:
        location = rng.randrange(min(len(data), 24))  # where headers are
        data[location : location + 4] = rng.choice((0, 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1)).to_bytes(4, "little")
    elif way == 3:
        data = bytearray(rng.choice(_hostile_bytes()))
    elif way == 4:
        data = bytearray(files[rng.choice(sorted(files))])
    else:
        for _ in range(rng.choice((1, 1, 3, 10))):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
    files[key] = bytes(data)


def _delete(files: Files, rng: random.Random) -> None:
    del files[_some_key(files, rng, document=rng.random() < 0.5)]


def _rename(files: Files, rng: random.Random) -> None:
    key = _some_key(files, rng, document=rng.random() < 0.5)
    other = rng.choice((rng.choice(sorted(files)), f"{key}/0", f"new/{key}", "a/" * 300 + key, f"squeezed/{key}"))
    files[other] = files[key]


def _change_consolidated_keys(files: Files, rng: random.Random) -> None:
    """Give a node of the consolidated document another name, such as one that leads out."""
    key = ".zmetadata" if ".zmetadata" in files else "zarr.json"
    document = json.loads(files[key])
    metadata = (document if key == ".zmetadata" else document["consolidated_metadata"])["metadata"]
    old = rng.choice(sorted(metadata))
    name = rng.choice(("../../outside", "/etc", "..", ".", "", "a//b", "a\0b", "x/" * 400, "plain/inside", "\ud800"))
    metadata[f"{name}/{old.rpartition('/')[2]}" if rng.random() < 0.7 else name] = metadata.pop(old)
    files[key] = json.dumps(document).encode()
