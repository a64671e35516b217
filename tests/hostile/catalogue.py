"""Bad input -> what happens: each line of the page is a case here, and each is run.

``python -m tests.hostile.catalogue`` writes the lines to the page; tests hold the page to them, and the package too.
"""

import itertools
import json
import os
import pickle
import shutil
import struct
import sys
import uuid
import zlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
import numcodecs
import numpy as np
import pytest
from hdmf.build import LinkBuilder, ReferenceBuilder

from hdmf_zarr_backend import Limits, ReadOptions, ZarrDataIO, ZarrIO, compare, convert
from hdmf_zarr_backend.errors import MetadataError
from tests import trees
from tests.proportion import ends
from tests.smallfiles import edited_json

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "bad-input.md"

Act = Callable[[Path], Any]


class Case(NamedTuple):
    """One line of a table of the page: bad input, and what happens."""

    part: str
    given: str
    happens: str
    spoil: Act
    """Makes the bad input of the whole file at a path."""
    act: Act
    """What a user does with it."""
    raises: str = ""
    """Name of the error that comes out; nothing: none does."""
    says: str = ""
    """What the error or the warning says."""
    warns: str = ""
    """Name of the warning."""
    finds: str = ""
    """The kind of the finding of `verify`; nothing: it finds no damage."""


def write(path: Path) -> None:
    numbers = np.arange(24, dtype="i2").reshape(6, 4)
    target = trees.dataset("target", np.arange(5.0), attributes={"object_id": "t-1"})
    box = trees.group("box", target, object_id="b-1")
    root = trees.root(box, trees.dataset("numbers", ZarrDataIO(numbers, chunks=(2, 4))), object_id="r-1")
    root.set_dataset(trees.dataset("texts", ["a", "bc", "d"] * 200))
    root.set_dataset(trees.dataset("scalar", 3.5))
    root.set_dataset(trees.dataset("references", [ReferenceBuilder(target), ReferenceBuilder(box)], "object"))
    root.set_attribute("to", ReferenceBuilder(target))
    root.set_link(LinkBuilder(builder=box, name="link"))
    trees.write_builder(path, root)
    trees.write_builder(path.parent / "neighbour.zarr", trees.root(trees.group("box", object_id="n-1")))


# ---- what is done with a file ---------------------------------------------------------------------------------------
def opened(path: Path, **options: Any) -> Any:
    with ZarrIO(path, **options) as io:
        return io.read_builder()


def _refused_by_all(path: Path) -> None:
    for refuses in (lambda: convert(path, path.with_suffix(".nwb"), check=False), lambda: opened(path)):
        with pytest.raises(MetadataError, match="of a link and of a member"):
            refuses()
    compare(path, path)


def read(name: str, **options: Any) -> Act:
    return lambda path: opened(path, **options)[name].data[:]


def resolve(path: Path) -> Any:
    return opened(path)["references"].data[:]


# ---- how it is spoiled ----------------------------------------------------------------------------------------------
def document(key: str, change: Callable[[dict[str, Any]], Any]) -> Act:
    def spoil(path: Path) -> None:
        (path / ".zmetadata").unlink(missing_ok=True)
        with edited_json(path / key) as content:
            change(content)

    return spoil


def text(key: str, value: str | bytes, *, consolidated: bool = False) -> Act:
    def spoil(path: Path) -> None:
        if not consolidated:
            (path / ".zmetadata").unlink(missing_ok=True)
        location = path / key
        location.parent.mkdir(parents=True, exist_ok=True)
        location.write_bytes(value if isinstance(value, bytes) else value.encode())

    return spoil


def link(**entry: Any) -> Act:
    return document(".zattrs", lambda content: content.update(zarr_link=[{"name": "link", **entry}]))


def squeezed(compressor: dict[str, Any] | None, data: bytes, *, name: str = "numbers") -> Act:
    """Return what gives the first chunk of an array other bytes, and the array a compressor for them."""

    def spoil(path: Path) -> None:
        document(f"{name}/.zarray", lambda content: content.update(compressor=compressor))(path)
        for chunk in (path / name).glob("[0-9]*"):
            chunk.write_bytes(data)

    return spoil


def _remove(*keys: str) -> Act:
    return lambda path: [(path / key).unlink() for key in keys]


def _chain(path: Path) -> None:
    entries = [{"name": f"l{i}", "source": ".", "path": f"/l{i + 1}"} for i in range(200)]
    document(".zattrs", lambda content: content.update(zarr_link=entries))(path)


def _files_in_a_row(path: Path) -> None:
    for number in range(100):
        other = path.parent / f"row{number}.zarr" / "g"
        other.mkdir(parents=True)
        (other / ".zgroup").write_text('{"zarr_format": 2}')
        shutil.copy(other / ".zgroup", other.parent)
        entry = {"name": "next", "source": f"../row{number + 1}.zarr", "path": "/g"}
        (other / ".zattrs").write_text(json.dumps({"zarr_link": [entry]}))
    link(source="../row0.zarr", path="/g")(path)


def _consolidated(change: Callable[[dict[str, Any]], Any]) -> Act:
    def spoil(path: Path) -> None:
        with edited_json(path / ".zmetadata") as content:
            change(content["metadata"])

    return spoil


def _not_a_file(make: Callable[[Path], Any]) -> Act:
    return lambda path: ((path / "numbers/0.0").unlink(), make(path / "numbers/0.0"))


class _Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("echo run",)


def _pickled(data: bytes) -> Act:
    def spoil(path: Path) -> None:
        document("references/.zarray", lambda d: d.update(filters=[{"id": "pickle"}], compressor=None))(path)
        (path / "references" / "0").write_bytes(data)

    return spoil


def _flipped(path: Path) -> None:
    data = bytearray(numcodecs.Zstd(1, checksum=True).encode(np.arange(8, dtype="i2")))
    data[-6] ^= 1
    squeezed({"id": "zstd", "level": 1}, bytes(data))(path)


def cut(key: str) -> Act:
    return lambda path: (path / key).write_bytes((path / key).read_bytes()[:-1])


def _pickled_text(value: str) -> bytes:
    return b"X" + len(value).to_bytes(4, "little") + value.encode()


def _crafted_type() -> bytes:
    fields = _DEEP_KEY + b"\x85}" + _pickled_text("a") + b"Ns"
    order = _pickled_text("|")
    return b"cnumpy\ndtype\n(" + _pickled_text("V1") + b"\x89\x88tR(K\3" + order + b"N" + fields + b"K\1K\1K\0tb."


def _linked(path: Path) -> None:
    assert opened(path).links["link"].builder.attributes["object_id"] == "n-1"


def _from_afar(path: Path) -> Any:
    location = f"memory://bad-input-{uuid.uuid4().hex}/file.zarr"
    files = {f"{location}/{p.relative_to(path)}": p.read_bytes() for p in path.rglob("*") if p.is_file()}
    fsspec.filesystem("memory").pipe(files)
    return opened(location)  # type: ignore[arg-type]


def _many_neighbours(path: Path) -> None:
    entries = [{"name": f"near{n}", "source": f"../near{n}.zarr", "path": "/box"} for n in range(4)]
    for entry in entries:
        trees.write_builder(path.parent / entry["source"][3:], trees.root(trees.group("box")))
    document(".zattrs", lambda content: content.update(zarr_link=entries))(path)


def _copied(path: Path) -> None:
    try:
        convert(path, path.parent / "copy.zarr", zarr_format=3, read_options=ReadOptions(missing_chunks="fill"))
    finally:
        assert not (path.parent / "copy.zarr").exists()


def _as_before(path: Path) -> None:
    root = opened(path)
    assert root["numbers"].data[1].tolist() == [4, 5, 6, 7]
    assert root["scalar"].data == 3.5
    assert root["box"].attributes["object_id"] == "b-1"


def _read_in_time(path: Path) -> None:
    with ends():
        assert len(opened(path)["box"].attributes) == 2**16


_ZEROS = bytes(2**26)
_DEEP_KEY = b")" + b"\x85" * 100_000
_ONE_HASH = ("Aa", "BB")
"""Two texts of one hash, where that is the sum of the letters, each times a power of 31; so have all rows of them."""

_SMALL = Limits(max_document_bytes=1000)
_FEW_BYTES = ReadOptions(limits=Limits(max_stored_bytes=1999))
_DEEP = '{"a":' * 100_000 + "0" + "}" * 100_000
_STATES = struct.pack("<4BIII", 2, 1, 0x21, 2, 2**31 - 20, 2**18, 40) + bytes(24)
_MANY = {f"{'g/' * 5}n{i}/.zgroup": {"zarr_format": 2} for i in range(3000)}

DOCUMENTS, CHUNKS, LINKS, SIZES, CODE = "Documents", "Chunks", "Links and references", "Sizes", "Code and places"
CARELESS, VALUES = "Careless calls", "Names and values"


def _chunk(given: str, spoil: Act, happens: str = "`ChunkError` that names array and chunk") -> Case:
    return Case(CHUNKS, given, happens, spoil, read("numbers"), "ChunkError", "'0.0", finds="chunk-damaged")


def _damaged(given: str, happens: str, spoil: Act, says: str) -> Case:
    return Case(DOCUMENTS, given, happens, spoil, opened, "MetadataError", says, finds="document-damaged")


def _not_consolidated(given: str, value: str, says: str) -> Case:
    return Case(DOCUMENTS, given, "a warning; the documents of the nodes are read",
                text(".zmetadata", value, consolidated=True), opened, says=says, warns="DamagedMetadataWarning",
                finds="consolidated-damaged")  # fmt: skip


def _no_link(given: str, entries: Any, says: str) -> Case:
    return Case(LINKS, given, "`MetadataError` that names the group",
                document(".zattrs", lambda d: d.update(zarr_link=entries)), opened, "MetadataError", says,
                finds="link-damaged")  # fmt: skip


def _broken(given: str, spoil: Act, says: str, happens: str) -> Case:
    return Case(LINKS, given, happens, spoil, opened, says=says, warns="BrokenLinkWarning", finds="link-dangling")


_BACK = "it is read unchanged; `zarrio repair` writes it back"

CASES: tuple[Case, ...] = (
    # documents
    _not_consolidated("`.zmetadata` is cut short", '{"metadata": {', ".zmetadata"),
    _not_consolidated("`.zmetadata` is `[]`", "[]", "consolidated"),
    Case(DOCUMENTS, "`.zmetadata` lacks an existing node", "it is read without that node; `verify` reports it",
         _consolidated(lambda d: d.pop("box/target/.zarray")), lambda path: len(opened(path).groups),
         finds="consolidated-stale", warns="BrokenLinkWarning", says="there is no such group or dataset"),
    _damaged("`.zarray` is cut short", "`MetadataError` that names the node",
             text("numbers/.zarray", '{"shape"'), "/numbers"),
    _damaged("`.zattrs` is cut short", "`MetadataError` that names the node",
             text("box/.zattrs", "{"), "/box"),
    _damaged("`.zarray` lacks a key", "`MetadataError` that names it",
             document("numbers/.zarray", lambda d: d.pop("chunks")), "lacks chunks"),
    _damaged("JSON that is nested 100,000 deep", "`MetadataError`",
             text("box/.zattrs", _DEEP), "RecursionError"),
    Case(DOCUMENTS, "NaN and Infinity as bare words", "they are read",
         text("box/.zattrs", '{"x": NaN, "y": -Infinity}'), lambda path: opened(path)["box"].attributes["y"]),
    Case(DOCUMENTS, "an array with members in `.zmetadata`", "a warning; the documents of the nodes are read",
         _consolidated(lambda d: d.update({"numbers/in/.zgroup": {"zarr_format": 2}})), opened,
         warns="DamagedMetadataWarning", says="an array has members", finds="consolidated-stale"),
    Case(DOCUMENTS, "a group without `.zgroup`", "it is read; `verify` reports it",
         lambda path: (_remove("box/.zgroup")(path), _remove(".zmetadata")(path)), opened, finds="group-implied"),
    Case(DOCUMENTS, "a mark in the root that the file is being written", "`IncompleteStoreError`",
         document(".zattrs", lambda d: d["_hdmf"].update(writing={"pid": 1})), opened,
         raises="IncompleteStoreError", says="is being written", finds="incomplete"),
    Case(DOCUMENTS, "`.zarray` is gone, and `.zmetadata` has it", _BACK,
         _remove("numbers/.zarray"), _as_before, finds="document-missing"),
    Case(DOCUMENTS, "`.zarray` is gone, and there is no `.zmetadata`", "the array is missing; `verify` reports it",
         _remove("numbers/.zarray", ".zmetadata"),
         lambda path: opened(path).datasets.keys() - {"numbers"}, finds="document-missing"),
    Case(DOCUMENTS, "`.zattrs` is gone, and `.zmetadata` has it", _BACK,
         _remove("box/.zattrs"), _as_before, finds="document-missing"),
    _not_consolidated("`.zmetadata` is empty", "", ".zmetadata"),
    _damaged("JSON that is nested 5,000 deep", "`MetadataError` that names the node",
             text("box/.zattrs", '{"a":' * 5000 + "0" + "}" * 5000), "/box"),
    Case(DOCUMENTS, "65,536 attributes with names that were made to have one hash", "they are read, in no more time",
         text("box/.zattrs", json.dumps(dict.fromkeys(map("".join, itertools.product(_ONE_HASH, repeat=16)), 1))),
         _read_in_time),
    # chunks
    Case(CHUNKS, "a chunk is gone", "it reads as the fill value; `verify` reports it", _remove("numbers/0.0"),
         read("numbers"), finds="chunk-missing"),
    Case(CHUNKS, 'a chunk is gone, and `missing_chunks="error"`', "`ChunkError` that names array and chunk",
         _remove("numbers/0.0"), read("numbers", read_options=ReadOptions(missing_chunks="error")),
         raises="ChunkError", says="'0.0 [0:2, 0:4]' is not stored", finds="chunk-missing"),
    _chunk("a chunk is empty", text("numbers/0.0", b"", consolidated=True)),
    _chunk("a chunk is something else", text("numbers/0.0", b"something else entirely", consolidated=True)),
    _chunk("a chunk states other lengths than it has", text("numbers/0.0", _STATES, consolidated=True),
           "`ChunkError`; nothing behind its end is read"),
    _chunk("a bit flips in a chunk with a checksum (zstd, zlib)", _flipped, "`ChunkError`"),
    Case(CHUNKS, "a chunk is a folder", "`ChunkError` that names the key", _not_a_file(Path.mkdir), read("numbers"),
         raises="ChunkError", says="'numbers/0.0' is a folder", finds="chunk-missing"),
    Case(CHUNKS, "a chunk is a pipe or a device", "`ChunkError`; nobody waits for it", _not_a_file(os.mkfifo),
         read("numbers"), raises="ChunkError", says="'numbers/0.0' is a folder, a pipe", finds="chunk-damaged"),
    Case(CHUNKS, "text with more elements than its chunk", "`ChunkError`",
         squeezed(None, (2**31).to_bytes(4, "little") * 9, name="texts"), read("texts"),
         raises="ChunkError", says="elements instead of", finds="chunk-damaged"),
    Case(CHUNKS, "text whose length leads behind the chunk", "`ChunkError`",
         squeezed(None, (600).to_bytes(4, "little") + b"\xff\xff\xff\x7f" * 600, name="texts"), read("texts"),
         raises="ChunkError", says="corrupt", finds="chunk-damaged"),
    _chunk("a chunk is cut short", cut("numbers/0.0")),
    Case(CHUNKS, "the chunk of a scalar is gone, and `.zmetadata` has it",
         _BACK, _remove("scalar/0"), _as_before, finds="chunk-missing"),
    Case(CHUNKS, "the chunk of a scalar is spoiled, and `.zmetadata` has it",
         _BACK, cut("scalar/0"), _as_before, finds="chunk-damaged"),
    Case(CHUNKS, "a scalar is another one in its chunk than in `.zmetadata`",
         "it is read unchanged; neither is overwritten unasked", text("scalar/0", b"12345678", consolidated=True),
         _as_before, finds="inlined-stale"),
    # links
    _broken("a link to nothing", link(source=".", path="/gone"),
            "/gone", "a warning; the link is left out, the rest is read"),
    _broken("a link to a file that is not there", link(source="../gone.zarr", path="/"),
            "gone.zarr", "a warning; the link is left out, the rest is read"),
    Case(LINKS, "a link to itself", "a warning that names the circle", link(source=".", path="/link"), opened,
         warns="BrokenLinkWarning", says="circle", finds="link-circular"),
    Case(LINKS, "`..` in the path of a link", "a warning; nothing outside is touched",
         link(source=".", path="/../../etc"), opened, warns="BrokenLinkWarning", says="no such", finds="link-dangling"),
    _no_link("a link without a name", [{"path": "/"}], "has no name"),
    Case(LINKS, "a link with the name of a dataset", "`MetadataError`, also of `compare` and `convert`",
         document(".zattrs", lambda d: d.update(zarr_link=[{"name": "numbers", "source": ".", "path": "/box"}])),
         _refused_by_all, "MetadataError", "'numbers' is that of a link and of a member", finds="link-damaged"),
    Case(LINKS, "a link to another object than the one that was meant", "a warning that names both ids",
         link(source=".", path="/box", object_id="other"), opened,
         warns="WrongTargetWarning", says="b-1, not other", finds="link-wrong-target"),
    Case(LINKS, "200 links in a row", "a warning that names `max_links`", _chain, opened,
         warns="BrokenLinkWarning", says="max_links", finds="link-dangling"),
    Case(LINKS, "100 files that link to each other in a row", "a warning that names `max_links`", _files_in_a_row,
         opened, warns="BrokenLinkWarning", says="max_links"),
    Case(LINKS, "a link to a neighbour", "it is followed", link(source="../neighbour.zarr", path="/box"),
         lambda path: opened(path).links["link"].builder.attributes["object_id"]),
    Case(LINKS, 'a link to a neighbour, and `external_links="never"`', "a warning; the link is left out",
         link(source="../neighbour.zarr", path="/box"),
         lambda path: opened(path, read_options=ReadOptions(external_links="never")),
         warns="BrokenLinkWarning", says="is refused"),
    Case(LINKS, 'a link out of the folder, and `external_links="within"`', "a warning; the link is left out",
         link(source="../../other.zarr", path="/box"),
         lambda path: opened(path, read_options=ReadOptions(external_links="within")),
         warns="BrokenLinkWarning", says="is refused", finds="link-dangling"),
    _broken("a link to a folder that is not a Zarr file", link(source="../..", path="/"),
            "not a Zarr", "a warning; the link is left out"),
    _broken("a link to a file that is not a Zarr file", link(source="../file.zarr/.zattrs", path="/"),
            "is not a Zarr file", "a warning; the link is left out"),
    Case(LINKS, "a reference to nothing", "`ReferenceTargetError` with path and id, when it is resolved",
         document("box/target/.zarray", lambda d: None), lambda path: (
             [p.unlink() for p in (path / "box/target").iterdir()], (path / "box/target").rmdir(), resolve(path)),
         raises="ReferenceTargetError", says="the object_id t-1 (/box/target)", warns="BrokenLinkWarning",
         finds="reference-dangling"),
    Case(LINKS, "a link to a neighbour by its absolute path", "it is followed, as with HDF5",
         lambda path: link(source=str(path.parent / "neighbour.zarr"), path="/box")(path), _linked),
    Case(LINKS, 'an absolute path out of the folder, and `external_links="within"`', "a warning; the link is left out",
         link(source="/", path="/box"), lambda path: opened(path, read_options=ReadOptions(external_links="within")),
         warns="BrokenLinkWarning", says="is refused", finds="link-dangling"),
    Case(LINKS, "a link with another scheme, such as `gopher:`", "a warning; the link is left out",
         link(source="gopher://localhost/a.zarr", path="/box"), opened,
         warns="BrokenLinkWarning", says="the protocols gopher are not followed"),
    Case(LINKS, "a link of a remote file to a file of this machine", "a warning; nothing of this machine is read",
         lambda path: link(source=(path.parent / "neighbour.zarr").as_uri(), path="/box")(path), _from_afar,
         warns="BrokenLinkWarning", says="does not lead to files of this machine"),
    Case(LINKS, "a link to the root, or to another group that it is in", "it is followed; it leads back to that group",
         link(source=".", path="/"), lambda path: opened(path).links["link"].builder.groups["box"]),
    _no_link("an entry of `zarr_link` that is not an object", ["x"], "(/)"),
    _no_link("`zarr_link` is not a list", {"link": "/box"}, "(/)"),
    # sizes
    Case(SIZES, "a document of more than `max_document_bytes`", "`LimitError` that names the limit",
         lambda path: None, lambda path: opened(path, read_options=ReadOptions(limits=_SMALL)),
         raises="LimitError", says="max_document_bytes"),
    Case(SIZES, "more nodes than `max_documents`", "`LimitError` that names the limit",
         _consolidated(lambda d: d.update(_MANY)),
         lambda path: opened(path, read_options=ReadOptions(limits=Limits(max_documents=2000))),
         raises="LimitError", says="max_documents", finds="document-missing"),
    Case(SIZES, "a million nested groups", "`LimitError` that names `max_depth`",
         _consolidated(lambda d: d.update({"g/" * 10**6 + ".zgroup": {"zarr_format": 2}})), opened,
         raises="LimitError", says="max_depth", finds="limit"),
    Case(SIZES, "an array of 2^61 elements", "it opens; `LimitError` where it is read whole",
         document("numbers/.zarray", lambda d: d.update(shape=[2**31, 2**30])), read("numbers"),
         raises="LimitError", says="max_read_", finds="chunk-missing"),
    Case(SIZES, "chunks of 2^40 bytes", "`LimitError` that names `max_chunk_bytes` where one is read",
         document("numbers/.zarray", lambda d: d.update(chunks=[2**20, 2**20])), read("numbers"),
         raises="LimitError", says="max_chunk_bytes", finds="limit"),
    *(Case(SIZES, f"{name} chunk that becomes 64 MiB", "`ChunkError`; decoding stops at the size of the chunk",
           squeezed({"id": codec.codec_id}, codec.encode(_ZEROS)), read("numbers"),
           raises="ChunkError", says="more than 16 bytes", finds="chunk-damaged")
      for name, codec in {"a zlib": numcodecs.Zlib(1), "a gzip": numcodecs.GZip(1), "a bzip2": numcodecs.BZ2(1),
                          "an LZMA": numcodecs.LZMA()}.items()),
    *(Case(SIZES, f"{name} chunk that becomes 64 MiB", "`ChunkError`, from its header",
           squeezed({"id": codec.codec_id}, codec.encode(_ZEROS)), read("numbers"),
           raises="ChunkError", says="'0.0", finds="chunk-damaged")
      for name, codec in {"a zstd": numcodecs.Zstd(1), "a Blosc": numcodecs.Blosc("zstd", 9),
                          "an LZ4": numcodecs.LZ4()}.items()),
    Case(SIZES, "text that becomes more than `max_object_bytes`", "`LimitError` that names the limit",
         squeezed({"id": "zlib", "level": 1}, zlib.compress(_ZEROS), name="texts"),
         read("texts", read_options=ReadOptions(limits=Limits(max_object_bytes=2**20))),
         raises="LimitError", says="max_object_bytes", finds="chunk-damaged"),
    Case(SIZES, "a stored chunk of more than `max_stored_bytes`", "`LimitError`; it is not read",
         text("numbers/0.0", bytes(2000), consolidated=True),
         lambda path: opened(path, read_options=_FEW_BYTES)["numbers"].data[:],
         raises="LimitError", says="max_stored_bytes", finds="chunk-damaged"),
    Case(SIZES, "links to more files than `max_files`", "a warning that names the limit", _many_neighbours,
         lambda path: opened(path, read_options=ReadOptions(limits=Limits(max_files=2))),
         warns="BrokenLinkWarning", says="max_files"),
    Case(SIZES, "a copy of an array of 2^40 chunks of which a few are stored", "`LimitError`: `max_unwritten_bytes`",
         document("numbers/.zarray", lambda d: d.update(shape=[2**41, 4])), _copied,
         raises="LimitError", says="max_unwritten_bytes", finds="chunk-missing"),
    # code
    Case(CODE, "a pickle that would run a program", "`UnsafeDataError`; nothing is run",
         _pickled(pickle.dumps([_Evil(), _Evil()])), resolve,
         raises="UnsafeDataError", says="/references", finds="unsafe"),
    Case(CODE, "a pickle that is cut off", "`ChunkError`", _pickled(pickle.dumps([1, 2])[:-4]), resolve,
         raises="ChunkError", says="/references", finds="chunk-damaged"),
    Case(CODE, "a codec that is not known", "`MissingCodecError` that names it",
         document("numbers/.zarray", lambda d: d.update(compressor={"id": "os.system"})), read("numbers"),
         raises="MissingCodecError", says="os.system", finds="library-missing"),
    Case(CODE, "a codec with a type of elements of 100 MB", "`MetadataError`",
         document("numbers/.zarray", lambda d: d.update(
             filters=[{"id": "astype", "encode_dtype": "u1", "decode_dtype": "U99999999"}])), read("numbers"),
         raises="MetadataError", says="not a type of numbers", finds="document-damaged"),
    Case(CODE, "a codec with dates in steps of 0 seconds, by which NumPy would divide", "`MetadataError`",
         document("numbers/.zarray", lambda d: d.update(dtype="<M8[s]", filters=[
             {"id": "astype", "encode_dtype": "<M8[s]", "decode_dtype": "<M8[0s]"}])), read("numbers"),
         raises="MetadataError", says="not a unit of time", finds="document-damaged"),
    Case(CODE, "a node called `../../outside`", "a warning; the documents of the nodes are read, and nothing outside",
         _consolidated(lambda d: d.update({"../../outside/.zarray": d["numbers/.zarray"]})), opened,
         warns="DamagedMetadataWarning", says="Do not trust this file", finds="consolidated-stale"),
    Case(CODE, "a pickle with a key of 100,000 tuples in each other", "`UnsafeDataError`; nothing is built of it",
         _pickled(b"\x80\x04}" + _DEEP_KEY + b"Ns."), resolve,
         raises="UnsafeDataError", says="key that is not text", finds="unsafe"),
    Case(CODE, "a pickle with a crafted type of elements", "`UnsafeDataError`; nothing is built of it",
         _pickled(b"\x80\4" + _crafted_type()), resolve,
         raises="UnsafeDataError", says="/references", finds="unsafe"),
    Case(CODE, "a node with an absolute path, `/outside`", "it is read below the root; nothing outside is touched",
         _consolidated(lambda d: d.update({"/outside/.zarray": d["numbers/.zarray"]})),
         lambda path: opened(path)["outside"].data.shape, finds="consolidated-stale"),
)  # fmt: skip


def all_cases() -> tuple[Case, ...]:
    from tests.hostile import calls  # which has more of what is made here

    return (*CASES, *calls.CASES)


def table_of(part: str) -> list[tuple[str, ...]]:
    cases = [case for case in all_cases() if case.part == part]
    if part in (CARELESS, VALUES):
        return [(case.given, case.happens) for case in cases]
    return [(case.given, case.happens, f"`{case.finds}`" if case.finds else "-") for case in cases]


def page_parts() -> dict[str, str]:
    sys.path.insert(0, str(ROOT / "docs" / "_scripts"))
    from generated import table

    titles = ("bad input", "result", "finding of `verify`")
    parts = (DOCUMENTS, CHUNKS, LINKS, SIZES, CODE)
    tables = {part.lower().replace(" ", "-"): table(titles, table_of(part)) for part in parts}
    tables["careless-calls"] = table(("call", "result"), table_of(CARELESS))
    tables["names-and-values"] = table(("value", "result"), table_of(VALUES))
    limits = [(f"`{name}`", f"{value:,}" if name != "max_read_bytes" else "the memory of the machine")
              for name, value in asdict(Limits()).items()]  # fmt: skip
    return {**tables, "limits": table(("limit", "default"), limits)}


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "docs" / "_scripts"))
    from generated import with_parts

    PAGE.write_text(with_parts(PAGE.read_text(encoding="utf-8"), page_parts()), encoding="utf-8")
