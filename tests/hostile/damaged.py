"""Damaged and hostile files -> what happens: more lines of the page "bad input", each of them run."""

from __future__ import annotations

import itertools
import json
import uuid
from pathlib import Path
from typing import Any

import fsspec

from hdmf_zarr_backend import Limits, ZarrIO, convert
from hdmf_zarr_backend.options import ReadOptions
from tests import trees
from tests.hostile.catalogue import CHUNKS, CODE, DOCUMENTS, LINKS, SIZES, Act, Case, document, link, opened, read, text
from tests.proportion import ends

_DEEP_KEY = b")" + b"\x85" * 100_000
_ONE_HASH = ("Aa", "BB")
"""Two texts of one hash, where that is the sum of the letters, each times a power of 31; so have all rows of them."""


def in_turn(*acts: Act) -> Act:
    """Return what does several things."""

    def act(path: Path) -> None:
        for each in acts:
            each(path)

    return act


def without(*keys: str) -> Act:
    """Return what removes keys."""

    def spoil(path: Path) -> None:
        for key in keys:
            (path / key).unlink()

    return spoil


def cut(key: str) -> Act:
    """Return what takes the last byte from a value."""
    return lambda path: (path / key).write_bytes((path / key).read_bytes()[:-1])


def stated(**documents: Any) -> Act:
    """Return what puts documents into the consolidated one, by their keys."""

    def spoil(path: Path) -> None:
        content = json.loads((path / ".zmetadata").read_text())
        content["metadata"].update(documents)
        (path / ".zmetadata").write_text(json.dumps(content))

    return spoil


def pickled(data: bytes) -> Act:
    """Return what makes a pickle of the array of references."""

    def spoil(path: Path) -> None:
        change = document("references/.zarray", lambda d: d.update(filters=[{"id": "pickle"}], compressor=None))
        change(path)
        (path / "references" / "0").write_bytes(b"\x80\x04" + data + b".")

    return spoil


def _text(value: str) -> bytes:
    return b"X" + len(value).to_bytes(4, "little") + value.encode()


def _crafted_type() -> bytes:
    """Return the pickle of a type of elements whose fields are not names, but tuples in each other."""
    fields = _DEEP_KEY + b"\x85}" + _text("a") + b"Ns"
    return b"cnumpy\ndtype\n(" + _text("V1") + b"\x89\x88tR(K\x03" + _text("|") + b"N" + fields + b"K\x01K\x01K\x00tb"


def _by_absolute_path(path: Path) -> None:
    link(source=str(path.parent / "neighbour.zarr"), path="/box")(path)


def _to_this_machine(path: Path) -> None:
    link(source=(path.parent / "neighbour.zarr").as_uri(), path="/box")(path)


def _linked(path: Path) -> None:
    assert opened(path).links["link"].builder.attributes["object_id"] == "n-1"


def _from_afar(path: Path) -> Any:
    """Read the file from where it is a remote one."""
    place = f"memory://bad-input-{uuid.uuid4().hex}/file.zarr"
    files = {f"{place}/{p.relative_to(path)}": p.read_bytes() for p in path.rglob("*") if p.is_file()}
    fsspec.filesystem("memory").pipe(files)
    return opened(place)  # type: ignore[arg-type]


def _many_neighbours(path: Path) -> None:
    names = [f"near{number}.zarr" for number in range(4)]
    for name in names:
        with ZarrIO(path.parent / name, "w") as io:
            io.write_builder(trees.root(trees.group("box")))
    entries = [{"name": name, "source": f"../{name}", "path": "/box"} for name in names]
    document(".zattrs", lambda content: content.update(zarr_link=entries))(path)


def _copied(path: Path) -> None:
    try:
        convert(path, path.parent / "copy.zarr", zarr_format=3, read_options=ReadOptions(missing_chunks="fill"))
    finally:
        assert not (path.parent / "copy.zarr").exists()


def _not_there(path: Path) -> None:
    assert "numbers" not in opened(path).datasets


def _as_before(path: Path) -> None:
    root = opened(path)
    assert root["numbers"].data[1].tolist() == [4, 5, 6, 7]
    assert root["scalar"].data == 3.5
    assert root["box"].attributes["object_id"] == "b-1"


def _collide(path: Path) -> None:
    colliding = map("".join, itertools.product(_ONE_HASH, repeat=16))
    text("box/.zattrs", json.dumps(dict.fromkeys(colliding, 1)))(path)


def _read_in_time(path: Path) -> None:
    with ends():
        assert len(opened(path)["box"].attributes) == 2**16


def _only_here(path: Path) -> None:
    assert opened(path)["outside"].data.shape == (6, 4)


_ROWS = {"shape": [6, 4], "chunks": [2, 4], "dtype": "<i2", "fill_value": 0, "order": "C", "filters": None,
         "compressor": None, "zarr_format": 2}  # fmt: skip

_BACK = "it is read unchanged; `zarrio repair` writes it back"

CASES: tuple[Case, ...] = (
    # documents
    Case(DOCUMENTS, "`.zarray` is gone, and `.zmetadata` has it", _BACK,
         without("numbers/.zarray"), _as_before, finds="document-missing"),
    Case(DOCUMENTS, "`.zarray` is gone, and there is no `.zmetadata`", "the array is missing; `verify` reports it",
         without("numbers/.zarray", ".zmetadata"), _not_there, finds="document-missing"),
    Case(DOCUMENTS, "`.zattrs` is gone, and `.zmetadata` has it", _BACK,
         without("box/.zattrs"), _as_before, finds="document-missing"),
    Case(DOCUMENTS, "`.zmetadata` is empty", "a warning; the documents of the nodes are read",
         text(".zmetadata", "", consolidated=True), opened,
         warns="DamagedMetadataWarning", says=".zmetadata", finds="consolidated-damaged"),
    Case(DOCUMENTS, "JSON that is nested 5,000 deep", "`MetadataError` that names the node",
         text("box/.zattrs", '{"a":' * 5000 + "0" + "}" * 5000), opened,
         raises="MetadataError", says="/box", finds="document-damaged"),
    Case(DOCUMENTS, "65,536 attributes with names that were made to have one hash", "they are read, in no more time",
         _collide, _read_in_time),
    # chunks
    Case(CHUNKS, "a chunk is cut short", "`ChunkError` that names array and chunk", cut("numbers/0.0"), read("numbers"),
         raises="ChunkError", says="'0.0'", finds="chunk-damaged"),
    Case(CHUNKS, "the chunk of a scalar is gone, and `.zmetadata` has it",
         _BACK, without("scalar/0"), _as_before, finds="chunk-missing"),
    Case(CHUNKS, "the chunk of a scalar is spoiled, and `.zmetadata` has it",
         _BACK, cut("scalar/0"), _as_before, finds="chunk-damaged"),
    Case(CHUNKS, "a scalar is another one in its chunk than in `.zmetadata`",
         "it is read unchanged; neither is overwritten unasked", text("scalar/0", b"12345678", consolidated=True),
         _as_before, finds="inlined-stale"),
    # links
    Case(LINKS, "a link to a neighbour by its absolute path", "it is followed, as with HDF5", _by_absolute_path,
         _linked),
    Case(LINKS, 'an absolute path out of the folder, and `external_links="within"`', "a warning; the link is left out",
         link(source="/", path="/box"), lambda path: opened(path, read_options=ReadOptions(external_links="within")),
         warns="BrokenLinkWarning", says="is refused", finds="link-dangling"),
    Case(LINKS, "a link with another scheme, such as `gopher:`", "a warning; the link is left out",
         link(source="gopher://localhost/a.zarr", path="/box"), opened,
         warns="BrokenLinkWarning", says="the protocols gopher are not followed"),
    Case(LINKS, "a link of a remote file to a file of this machine", "a warning; nothing of this machine is read",
         _to_this_machine, _from_afar, warns="BrokenLinkWarning", says="does not lead to files of this machine"),
    Case(LINKS, "a link to the root, or to another group that it is in", "it is followed; it leads back to that group",
         link(source=".", path="/"), lambda path: opened(path).links["link"].builder.groups["box"]),
    Case(LINKS, "an entry of `zarr_link` that is not an object", "`MetadataError` that names the group",
         document(".zattrs", lambda d: d.update(zarr_link=["x"])), opened,
         raises="MetadataError", says="(/)", finds="link-damaged"),
    Case(LINKS, "`zarr_link` is not a list", "`MetadataError` that names the group",
         document(".zattrs", lambda d: d.update(zarr_link={"link": "/box"})), opened,
         raises="MetadataError", says="(/)", finds="link-damaged"),
    # sizes
    Case(SIZES, "links to more files than `max_files`", "a warning that names the limit", _many_neighbours,
         lambda path: opened(path, read_options=ReadOptions(limits=Limits(max_files=2))),
         warns="BrokenLinkWarning", says="max_files"),
    Case(SIZES, "a copy of an array of 2^40 chunks of which a few are stored", "`LimitError`: `max_unwritten_bytes`",
         document("numbers/.zarray", lambda d: d.update(shape=[2**41, 4])), _copied,
         raises="LimitError", says="max_unwritten_bytes", finds="chunk-missing"),
    # code
    Case(CODE, "a pickle with a key of 100,000 tuples in each other", "`UnsafeDataError`; nothing is built of it",
         pickled(b"}" + _DEEP_KEY + b"Ns"), lambda path: opened(path)["references"].data[:],
         raises="UnsafeDataError", says="key that is not text", finds="unsafe"),
    Case(CODE, "a pickle with a crafted type of elements", "`UnsafeDataError`; nothing is built of it",
         pickled(_crafted_type()), lambda path: opened(path)["references"].data[:],
         raises="UnsafeDataError", says="/references", finds="unsafe"),
    Case(CODE, "a node with an absolute path, `/outside`", "it is read below the root; nothing outside is touched",
         stated(**{"/outside/.zarray": _ROWS}), _only_here, finds="consolidated-stale"),
)  # fmt: skip
