"""Bad input -> what happens: each line of the page is a case here, and each is run.

``python -m tests.hostile.catalogue`` writes the lines to the page; tests hold the page to them, and the package too.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import pickle
import struct
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
from hdmf.build import LinkBuilder, ReferenceBuilder

from hdmf_zarr_backend import Limits, ZarrDataIO, ZarrIO
from hdmf_zarr_backend.options import ReadOptions
from tests import trees

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "bad-input.md"

Act = Callable[[Path], Any]


@dataclass(frozen=True)
class Case:
    """One line.

    Parameters
    ----------
    part : str
        The table that it is in.
    given : str
        The bad input.
    happens : str
        What happens.
    spoil : callable
        Makes it of the whole file at a path.
    act : callable
        What a user does with it.
    raises : str
        Name of the error that comes out; nothing: none does.
    says : str
        What the error or the warning says.
    warns : str
        Name of the warning.
    finds : str
        The kind of the finding of `verify`; nothing: it finds no damage.
    """

    part: str
    given: str
    happens: str
    spoil: Act
    act: Act
    raises: str = ""
    says: str = ""
    warns: str = ""
    finds: str = ""


def write(path: Path) -> None:
    """Write the whole file that the cases spoil."""
    numbers = np.arange(24, dtype="i2").reshape(6, 4)
    target = trees.dataset("target", np.arange(5.0), attributes={"object_id": "t-1"})
    box = trees.group("box", target, object_id="b-1")
    root = trees.root(box, trees.dataset("numbers", ZarrDataIO(numbers, chunks=(2, 4))), object_id="r-1")
    root.set_dataset(trees.dataset("texts", ["a", "bc", "d"] * 200))
    root.set_dataset(trees.dataset("scalar", 3.5))
    root.set_dataset(trees.dataset("references", [ReferenceBuilder(target), ReferenceBuilder(box)], "object"))
    root.set_attribute("to", ReferenceBuilder(target))
    root.set_link(LinkBuilder(builder=box, name="link"))
    with ZarrIO(path, "w") as io:
        io.write_builder(root)
    neighbour = path.parent / "neighbour.zarr"
    if not neighbour.exists():
        with ZarrIO(neighbour, "w") as io:
            io.write_builder(trees.root(trees.group("box", object_id="n-1")))


# ---- what is done with a file ---------------------------------------------------------------------------------------


def opened(path: Path, **options: Any) -> Any:
    """Open a file and return its builder."""
    with ZarrIO(path, **options) as io:
        return io.read_builder()


def read(name: str, **options: Any) -> Act:
    """Return what reads a dataset."""
    return lambda path: opened(path, **options)[name].data[:]


def resolve(path: Path) -> Any:
    """Resolve all references."""
    return opened(path)["references"].data[:]


# ---- how it is spoiled ----------------------------------------------------------------------------------------------


def document(key: str, change: Callable[[dict[str, Any]], Any]) -> Act:
    """Return what changes a document of a node, in a file without a consolidated document."""

    def spoil(path: Path) -> None:
        (path / ".zmetadata").unlink(missing_ok=True)
        content = json.loads((path / key).read_text())
        change(content)
        (path / key).write_text(json.dumps(content))

    return spoil


def text(key: str, value: str | bytes, *, consolidated: bool = False) -> Act:
    """Return what sets a key."""

    def spoil(path: Path) -> None:
        if not consolidated:
            (path / ".zmetadata").unlink(missing_ok=True)
        place = path / key
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(value if isinstance(value, bytes) else value.encode())

    return spoil


def link(**entry: Any) -> Act:
    """Return what makes a file have one link only."""
    return document(".zattrs", lambda content: content.update(zarr_link=[{"name": "link", **entry}]))


def squeezed(compressor: dict[str, Any] | None, data: bytes, *, name: str = "numbers") -> Act:
    """Return what gives the first chunk of an array other bytes, and the array a compressor for them."""

    def spoil(path: Path) -> None:
        document(f"{name}/.zarray", lambda content: content.update(compressor=compressor))(path)
        for chunk in (path / name).glob("[0-9]*"):
            chunk.write_bytes(data)

    return spoil


def _remove(key: str) -> Act:
    return lambda path: (path / key).unlink()


def _chain(path: Path) -> None:
    entries = [{"name": f"l{i}", "source": ".", "path": f"/l{i + 1}"} for i in range(200)]
    document(".zattrs", lambda content: content.update(zarr_link=entries))(path)


def _files_in_a_row(path: Path) -> None:
    for number in range(100):
        other = path.parent / f"row{number}.zarr"
        (other / "g").mkdir(parents=True)
        (other / ".zgroup").write_text('{"zarr_format": 2}')
        (other / "g" / ".zgroup").write_text('{"zarr_format": 2}')
        entry = {"name": "next", "source": f"../row{number + 1}.zarr", "path": "/g"}
        (other / "g" / ".zattrs").write_text(json.dumps({"zarr_link": [entry]}))
    link(source="../row0.zarr", path="/g")(path)


def _consolidated(change: Callable[[dict[str, Any]], Any]) -> Act:
    def spoil(path: Path) -> None:
        content = json.loads((path / ".zmetadata").read_text())
        change(content)
        (path / ".zmetadata").write_text(json.dumps(content))

    return spoil


def _as_folder(path: Path) -> None:
    (path / "numbers" / "0.0").unlink()
    (path / "numbers" / "0.0").mkdir()


def _as_pipe(path: Path) -> None:
    (path / "numbers" / "0.0").unlink()
    os.mkfifo(path / "numbers" / "0.0")


class _Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("echo run",)


def _pickled(path: Path) -> None:
    document("references/.zarray", lambda content: content.update(filters=[{"id": "pickle"}], compressor=None))(path)
    (path / "references" / "0").write_bytes(pickle.dumps([_Evil(), _Evil()]))


def _flipped(path: Path) -> None:
    squeezed({"id": "zstd", "level": 1}, numcodecs.Zstd(1, checksum=True).encode(np.arange(8, dtype="i2")))(path)
    data = bytearray((path / "numbers" / "0.0").read_bytes())
    data[-6] ^= 1
    (path / "numbers" / "0.0").write_bytes(bytes(data))


_ZEROS = bytes(2**26)
_SMALL = Limits(max_document_bytes=1000)
_FEW_BYTES = ReadOptions(limits=Limits(max_stored_bytes=1999))
_DEEP = '{"a":' * 100_000 + "0" + "}" * 100_000
_STATES = struct.pack("<4BIII", 2, 1, 0x21, 2, 2**31 - 20, 2**18, 40) + bytes(24)
_MANY = {f"{'g/' * 5}n{i}/.zgroup": {"zarr_format": 2} for i in range(3000)}

DOCUMENTS, CHUNKS, LINKS, SIZES, CODE = "Documents", "Chunks", "Links and references", "Sizes", "Code and places"
CARELESS, VALUES = "Careless calls", "Names and values"

CASES: tuple[Case, ...] = (
    # documents
    Case(DOCUMENTS, "`.zmetadata` is cut short", "a warning; the documents of the nodes are read",
         text(".zmetadata", '{"metadata": {', consolidated=True), opened,
         warns="DamagedMetadataWarning", says=".zmetadata", finds="consolidated-damaged"),
    Case(DOCUMENTS, "`.zmetadata` is `[]`", "a warning; the documents of the nodes are read",
         text(".zmetadata", "[]", consolidated=True), opened,
         warns="DamagedMetadataWarning", says="consolidated", finds="consolidated-damaged"),
    Case(DOCUMENTS, "`.zmetadata` lacks an existing node", "it is read without that node; `verify` reports it",
         _consolidated(lambda d: d["metadata"].pop("box/target/.zarray")), lambda path: len(opened(path).groups),
         finds="consolidated-stale", warns="BrokenLinkWarning", says="there is no such group or dataset"),
    Case(DOCUMENTS, "`.zarray` is cut short", "`MetadataError` that names the node",
         text("numbers/.zarray", '{"shape"'), opened,
         raises="MetadataError", says="/numbers", finds="document-damaged"),
    Case(DOCUMENTS, "`.zattrs` is cut short", "`MetadataError` that names the node",
         text("box/.zattrs", "{"), opened, raises="MetadataError", says="/box", finds="document-damaged"),
    Case(DOCUMENTS, "`.zarray` lacks a key", "`MetadataError` that names it",
         document("numbers/.zarray", lambda d: d.pop("chunks")), opened,
         raises="MetadataError", says="lacks chunks", finds="document-damaged"),
    Case(DOCUMENTS, "JSON that is nested 100,000 deep", "`MetadataError`",
         text("box/.zattrs", _DEEP), opened, raises="MetadataError", says="RecursionError", finds="document-damaged"),
    Case(DOCUMENTS, "NaN and Infinity as bare words", "they are read",
         text("box/.zattrs", '{"x": NaN, "y": -Infinity}'), lambda path: opened(path)["box"].attributes["y"]),
    Case(DOCUMENTS, "an array with members in `.zmetadata`", "a warning; the documents of the nodes are read",
         _consolidated(lambda d: d["metadata"].update({"numbers/in/.zgroup": {"zarr_format": 2}})), opened,
         warns="DamagedMetadataWarning", says="an array has members", finds="consolidated-stale"),
    Case(DOCUMENTS, "a group without `.zgroup`", "it is read; `verify` reports it",
         lambda path: (_remove("box/.zgroup")(path), _remove(".zmetadata")(path)), opened, finds="group-implied"),
    Case(DOCUMENTS, "a mark in the root that the file is being written", "`IncompleteStoreError`",
         document(".zattrs", lambda d: d["_hdmf"].update(writing={"pid": 1})), opened,
         raises="IncompleteStoreError", says="is being written", finds="incomplete"),
    # chunks
    Case(CHUNKS, "a chunk is gone", "it reads as the fill value; `verify` reports it", _remove("numbers/0.0"),
         read("numbers"), finds="chunk-missing"),
    Case(CHUNKS, 'a chunk is gone, and `missing_chunks="error"`', "`ChunkError` that names array and chunk",
         _remove("numbers/0.0"), read("numbers", read_options=ReadOptions(missing_chunks="error")),
         raises="ChunkError", says="'0.0' is not stored", finds="chunk-missing"),
    Case(CHUNKS, "a chunk is empty", "`ChunkError` that names array and chunk",
         text("numbers/0.0", b"", consolidated=True), read("numbers"),
         raises="ChunkError", says="'0.0'", finds="chunk-damaged"),
    Case(CHUNKS, "a chunk is something else", "`ChunkError` that names array and chunk",
         text("numbers/0.0", b"something else entirely", consolidated=True), read("numbers"),
         raises="ChunkError", says="'0.0'", finds="chunk-damaged"),
    Case(CHUNKS, "a chunk states other lengths than it has", "`ChunkError`; nothing behind its end is read",
         text("numbers/0.0", _STATES, consolidated=True), read("numbers"),
         raises="ChunkError", says="'0.0'", finds="chunk-damaged"),
    Case(CHUNKS, "a bit flips in a chunk with a checksum (zstd, zlib)", "`ChunkError`", _flipped, read("numbers"),
         raises="ChunkError", says="'0.0'", finds="chunk-damaged"),
    Case(CHUNKS, "a chunk is a folder", "`ChunkError` that names array and chunk", _as_folder, read("numbers"),
         raises="ChunkError", says="'0.0'", finds="chunk-damaged"),
    Case(CHUNKS, "a chunk is a pipe or a device", "`ChunkError`; nobody waits for it", _as_pipe,
         read("numbers"), raises="ChunkError", says="'0.0'", finds="chunk-damaged"),
    Case(CHUNKS, "text with more elements than its chunk", "`ChunkError`",
         squeezed(None, (2**31).to_bytes(4, "little") * 9, name="texts"), read("texts"),
         raises="ChunkError", says="elements instead of", finds="chunk-damaged"),
    Case(CHUNKS, "text whose length leads behind the chunk", "`ChunkError`",
         squeezed(None, (600).to_bytes(4, "little") + b"\xff\xff\xff\x7f" * 600, name="texts"), read("texts"),
         raises="ChunkError", says="corrupt", finds="chunk-damaged"),
    # links
    Case(LINKS, "a link to nothing", "a warning; the link is left out, the rest is read",
         link(source=".", path="/gone"), opened, warns="BrokenLinkWarning", says="/gone", finds="link-dangling"),
    Case(LINKS, "a link to a file that is not there", "a warning; the link is left out, the rest is read",
         link(source="../gone.zarr", path="/"), opened, warns="BrokenLinkWarning", says="gone.zarr",
         finds="link-dangling"),
    Case(LINKS, "a link to itself", "a warning that names the circle", link(source=".", path="/link"), opened,
         warns="BrokenLinkWarning", says="circle", finds="link-circular"),
    Case(LINKS, "`..` in the path of a link", "a warning; nothing outside is touched",
         link(source=".", path="/../../etc"), opened, warns="BrokenLinkWarning", says="no such", finds="link-dangling"),
    Case(LINKS, "a link without a name", "`MetadataError` that names the group",
         document(".zattrs", lambda d: d.update(zarr_link=[{"path": "/"}])), opened,
         raises="MetadataError", says="has no name", finds="link-damaged"),
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
    Case(LINKS, "a link to a folder that is not a Zarr file", "a warning; the link is left out",
         link(source="../..", path="/"), opened, warns="BrokenLinkWarning", says="not a Zarr", finds="link-dangling"),
    Case(LINKS, "a reference to nothing", "`ReferenceTargetError` with path and id, when it is resolved",
         document("box/target/.zarray", lambda d: None), lambda path: (
             [p.unlink() for p in (path / "box/target").iterdir()], (path / "box/target").rmdir(), resolve(path)),
         raises="ReferenceTargetError", says="the object_id t-1 (store", warns="BrokenLinkWarning",
         finds="reference-dangling"),
    # sizes
    Case(SIZES, "a document of more than `max_document_bytes`", "`LimitError` that names the limit",
         lambda path: None, lambda path: opened(path, read_options=ReadOptions(limits=_SMALL)),
         raises="LimitError", says="max_document_bytes"),
    Case(SIZES, "more nodes than `max_documents`", "`LimitError` that names the limit",
         _consolidated(lambda d: d["metadata"].update(_MANY)),
         lambda path: opened(path, read_options=ReadOptions(limits=Limits(max_documents=2000))),
         raises="LimitError", says="max_documents", finds="document-missing"),
    Case(SIZES, "a million nested groups", "`LimitError` that names `max_depth`",
         _consolidated(lambda d: d["metadata"].update({"g/" * 10**6 + ".zgroup": {"zarr_format": 2}})), opened,
         raises="LimitError", says="max_depth", finds="limit"),
    Case(SIZES, "an array of 2^61 elements", "it opens; `LimitError` where it is read whole",
         document("numbers/.zarray", lambda d: d.update(shape=[2**31, 2**30])), read("numbers"),
         raises="LimitError", says="max_read_", finds="chunk-missing"),
    Case(SIZES, "chunks of 2^40 bytes", "`LimitError` that names `max_chunk_bytes` where one is read",
         document("numbers/.zarray", lambda d: d.update(chunks=[2**20, 2**20])), read("numbers"),
         raises="LimitError", says="max_chunk_bytes", finds="limit"),
    Case(SIZES, "a zlib chunk that becomes 64 MiB", "`ChunkError`; decoding stops at the size of the chunk",
         squeezed({"id": "zlib", "level": 1}, zlib.compress(_ZEROS)), read("numbers"),
         raises="ChunkError", says="more than 16 bytes", finds="chunk-damaged"),
    Case(SIZES, "a gzip chunk that becomes 64 MiB", "`ChunkError`; decoding stops at the size of the chunk",
         squeezed({"id": "gzip", "level": 1}, gzip.compress(_ZEROS)), read("numbers"),
         raises="ChunkError", says="more than 16 bytes", finds="chunk-damaged"),
    Case(SIZES, "a bzip2 chunk that becomes 64 MiB", "`ChunkError`; decoding stops at the size of the chunk",
         squeezed({"id": "bz2", "level": 1}, bz2.compress(_ZEROS)), read("numbers"),
         raises="ChunkError", says="more than 16 bytes", finds="chunk-damaged"),
    Case(SIZES, "an LZMA chunk that becomes 64 MiB", "`ChunkError`; decoding stops at the size of the chunk",
         squeezed({"id": "lzma"}, lzma.compress(_ZEROS)), read("numbers"),
         raises="ChunkError", says="more than 16 bytes", finds="chunk-damaged"),
    Case(SIZES, "a zstd chunk that becomes 64 MiB", "`ChunkError`, from its header",
         squeezed({"id": "zstd", "level": 1}, numcodecs.Zstd(1).encode(_ZEROS)), read("numbers"),
         raises="ChunkError", says="'0.0'", finds="chunk-damaged"),
    Case(SIZES, "a Blosc chunk that becomes 64 MiB", "`ChunkError`, from its header",
         squeezed({"id": "blosc"}, numcodecs.Blosc("zstd", 9).encode(_ZEROS)), read("numbers"),
         raises="ChunkError", says="'0.0'", finds="chunk-damaged"),
    Case(SIZES, "an LZ4 chunk that becomes 64 MiB", "`ChunkError`, from its header",
         squeezed({"id": "lz4"}, numcodecs.LZ4().encode(_ZEROS)), read("numbers"),
         raises="ChunkError", says="'0.0'", finds="chunk-damaged"),
    Case(SIZES, "text that becomes more than `max_object_bytes`", "`LimitError` that names the limit",
         squeezed({"id": "zlib", "level": 1}, zlib.compress(_ZEROS), name="texts"),
         read("texts", read_options=ReadOptions(limits=Limits(max_object_bytes=2**20))),
         raises="LimitError", says="max_object_bytes", finds="chunk-damaged"),
    Case(SIZES, "a stored chunk of more than `max_stored_bytes`", "`LimitError`; it is not read",
         text("numbers/0.0", bytes(2000), consolidated=True),
         lambda path: opened(path, read_options=_FEW_BYTES)["numbers"].data[:],
         raises="LimitError", says="max_stored_bytes", finds="chunk-damaged"),
    # code
    Case(CODE, "a pickle that would run a program", "`UnsafeDataError`; nothing is run", _pickled, resolve,
         raises="UnsafeDataError", says="/references", finds="unsafe"),
    Case(CODE, "a codec that is not known", "`MetadataError` that names it",
         document("numbers/.zarray", lambda d: d.update(compressor={"id": "os.system"})), read("numbers"),
         raises="MetadataError", says="os.system", finds="document-damaged"),
    Case(CODE, "a codec with a type of elements of 100 MB", "`MetadataError`",
         document("numbers/.zarray", lambda d: d.update(
             filters=[{"id": "astype", "encode_dtype": "u1", "decode_dtype": "U99999999"}])), read("numbers"),
         raises="MetadataError", says="not a type of numbers", finds="document-damaged"),
    Case(CODE, "a node called `../../outside`", "`StoreError`; nothing outside is touched",
         _consolidated(lambda d: d["metadata"].update({"../../outside/.zarray": d["metadata"]["numbers/.zarray"]})),
         lambda path: opened(path).groups[".."].groups[".."].datasets["outside"].data[:],
         raises="StoreError", says="leads out of the store", finds="consolidated-stale"),
)  # fmt: skip


def all_cases() -> tuple[Case, ...]:
    """Return the lines of all tables."""
    from tests.hostile import careless, damaged, values  # which have more of what is made here

    return (*CASES, *damaged.CASES, *careless.CASES, *values.CASES)


def table_of(part: str) -> list[tuple[str, ...]]:
    """Return the lines of one table: bad input, what happens, and of files what `verify` says."""
    cases = [case for case in all_cases() if case.part == part]
    if part in (CARELESS, VALUES):
        return [(case.given, case.happens) for case in cases]
    return [(case.given, case.happens, f"`{case.finds}`" if case.finds else "-") for case in cases]


def page_parts() -> dict[str, str]:
    """Return the generated parts of the page."""
    sys.path.insert(0, str(ROOT / "docs" / "_scripts"))
    from generated import table

    titles = ("bad input", "result", "finding of `verify`")
    parts = (DOCUMENTS, CHUNKS, LINKS, SIZES, CODE)
    tables = {part.lower().replace(" ", "-"): table(titles, table_of(part)) for part in parts}
    tables["careless-calls"] = table(("call", "result"), table_of(CARELESS))
    tables["names-and-values"] = table(("value", "result"), table_of(VALUES))
    limits = [(f"`{entry.name}`", f"{_default(entry):,}" if entry.name != _MEMORY else "the memory of the machine")
              for entry in fields(Limits)]  # fmt: skip
    return {**tables, "limits": table(("limit", "default"), limits)}


_MEMORY = "max_read_bytes"


def _default(entry: Any) -> int:
    return int(getattr(Limits(), entry.name))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "docs" / "_scripts"))
    from generated import with_parts

    PAGE.write_text(with_parts(PAGE.read_text(encoding="utf-8"), page_parts()), encoding="utf-8")
