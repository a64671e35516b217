"""What spoiled files have brought to light, each in its smallest form: another error, a crash, or no end."""

import base64
import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numcodecs
import numpy as np
import pytest
from hdmf.backends.hdf5 import HDF5IO
from hdmf.backends.warnings import BrokenLinkWarning
from hdmf.common import get_manager

from hdmf_zarr_backend import Limits, NWBZarrIO, ZarrDataIO, ZarrIO, compare, convert, dry_run, errors, verify
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.encoding.chunk_codec import CRC32C
from hdmf_zarr_backend.encoding.data_types import encode_type
from hdmf_zarr_backend.encoding.fills import fill_from_format_3, fill_in_format_3
from hdmf_zarr_backend.errors import ChunkError, LimitError, MetadataError, UsageError, ZarrBackendError
from hdmf_zarr_backend.hdmf.schema import ContainerError
from hdmf_zarr_backend.options import ReadOptions, WriteOptions
from tests import trees
from tests.documents import change_attributes
from tests.hostile.files import put
from tests.hostile.operations import LIMITS, use
from tests.hostile.seeds import Files, listed, written
from tests.proportion import assert_linear, ends
from tests.smallfiles import hdf5_file


def change(files: Files, key: str, change: Callable[[dict[str, Any]], Any]) -> Files:
    document = json.loads(files[key])
    change(document)
    files[key] = json.dumps(document).encode()
    return files


def look(files: Files | Path) -> tuple[str, set[str]]:
    outcome = ""
    with warnings.catch_warnings(action="ignore"):
        try:
            use(files)
        except ZarrBackendError as error:
            outcome = type(error).__name__
        return outcome, {problem.kind for problem in verify(files, read_options=ReadOptions(limits=LIMITS)).problems}


# ---- chunks that state another length --------------------------------------------------------------------------------
@pytest.mark.parametrize("codec", [
    numcodecs.Blosc("lz4"), numcodecs.Blosc("zstd"), numcodecs.LZ4(), numcodecs.Zstd(),
    numcodecs.Zlib(), numcodecs.Shuffle(4), numcodecs.Fletcher32(), False,
], ids=repr)  # fmt: skip
@pytest.mark.parametrize("length", [99, 1, 101])
def test_a_chunk_of_another_length_is_damaged(zarr_format, codec, length):
    """It is a complete chunk, of fewer numbers or more: none of the numbers returned are what the memory contained."""
    data = ZarrDataIO(np.arange(100, dtype="<i4"), chunks=(100,), compressor=codec, filters=[])
    numbers = np.arange(length, dtype="<i4")
    files = trees.write_builder({}, trees.root(trees.dataset("a", data)), zarr_format=zarr_format)
    files["a/0" if zarr_format == 2 else "a/c/0"] = bytes(codec.encode(numbers) if codec else numbers.tobytes())
    array = trees.read_builder(files)["a"].data
    for selection in (slice(None), slice(0, 1), slice(-1, None)):
        with pytest.raises(ChunkError, match=r"chunk '(c/)?0 \[0:100\]' cannot be decoded"):
            array[selection]
    assert {(problem.kind, problem.path) for problem in verify(files).problems} == {("chunk-damaged", "/a")}


def test_numbers_of_pcodec_are_read_if_there_are_as_many_as_the_chunk_has():
    pytest.importorskip("pcodec")
    codec = numcodecs.get_codec({"id": "pcodec"})
    data = ZarrDataIO(np.arange(1000, dtype="<i4"), chunks=(1000,), compressor=codec)
    files = trees.write_builder({}, trees.root(trees.dataset("a", data)))
    assert trees.read_builder(files)["a"].data[:].tolist() == list(range(1000))
    for length in (999, 1001):
        files["a/0"] = bytes(codec.encode(np.arange(length, dtype="<i4")))
        with pytest.raises(ChunkError, match=r"chunk '0 \[0:1000\]' cannot be decoded"):
            trees.read_builder(files)["a"].data[:]


# ---- documents that say something of another kind -------------------------------------------------------------------
@pytest.mark.parametrize(("key", "part", "value"), [
    *(("rows/.zarray", "dtype", fields) for fields in ([{"a": 1}], [["n"]], [[["x"], "|O"]], ["|O"], [5])),
    *(("rows/.zattrs", "zarr_dtype", [text]) for text in ({"name": "n", "dtype": []}, {"name": []}, 5, {})),
    *((f"{name}/.zarray", "shape", [2**64, *more]) for name, more in (("references", []), ("rows", [2]))),
    *((f"{name}/.zarray", "chunks", [1, *more]) for name, more in (("plain", [4]), ("references", []), ("rows", [2]))),
])  # fmt: skip
def test_rows_and_references_of_another_kind_or_size(key, part, value):
    """The error is one of ours, if there is any, and it comes soon."""
    changes = {part: value} if part != "chunks" else {part: value, "shape": [2**40, *value[1:]]}
    with ends():
        look(change(listed(2), key, lambda d: d.update(changes)))


@pytest.mark.parametrize(
    "step", [[1, 0, 5], [[1], 0, []], [1, 0, None], [1], 5, ["x", 0, []], [1, 0, ["x"]], [-1, 0, []]], ids=str
)
def test_a_note_of_filters_of_another_kind(tmp_path, step):
    files = change(listed(2), "plain/.zattrs", lambda d: d.update(_hdmf={"hdf5": {"filters": [step]}}))
    hdf5_file(tmp_path / "a.h5", plain=np.arange(3))
    assert "/plain" in {difference.path for difference in compare(files, tmp_path / "a.h5")}
    convert(files, tmp_path / "b.h5", check=False)
    with h5py.File(tmp_path / "b.h5") as file, ZarrIO(files) as io:
        np.testing.assert_array_equal(file["plain"][()], io.read_builder()["plain"].data[()])


# ---- chunks ---------------------------------------------------------------------------------------------------------
def test_a_frame_of_blosc_that_is_all_header():
    frame = bytes(numcodecs.Blosc().encode(np.arange(6, dtype="i2")))
    for length in range(17):
        files = {**listed(2), "squeezed/0.0": frame[:length]}
        assert "chunk-damaged" in look(files)[1]
        with pytest.raises(ChunkError):
            trees.read_builder(files)["squeezed"].data[0]


@pytest.mark.parametrize(("compressor", "chunk"), [
    ({"id": "lz4"}, b"\0\0\0!"), ({"id": "zstd"}, b"\x28\xb5\x2f\xfd\xe0" + b"\0" * 7 + b"\x01"),
    *(({"id": "blosc"}, b"\2\1\1\1" + length + b"\0\0\4\0" + (40).to_bytes(4, "little") + bytes(24))
      for length in (b"\0\0\0!", b"\xff\xff\xff\xff")),
], ids=["lz4", "zstd", "blosc", "blosc, negative"])  # fmt: skip
def test_a_length_that_so_few_bytes_cannot_have_is_damage_and_no_matter_of_limits(compressor, chunk):
    files = change(listed(2), "texts/.zarray", lambda d: d.update(compressor=compressor))
    files["texts/0"] = chunk
    with pytest.raises(ChunkError, match=r"can hold|cannot have"):
        trees.read_builder(files)["texts"].data[0]


def _of_text(chunk: bytes = b"", attributes: Any = None, **document: Any) -> Files:
    known = {"shape": [4], "chunks": [2], "dtype": "<U2", "filters": None, "compressor": None, "fill_value": None,
             "order": "C", "zarr_format": 2}  # fmt: skip
    parts = {".zgroup": {"zarr_format": 2}, "x/.zarray": known | document, "x/.zattrs": attributes or {}}
    files = {key: json.dumps(part).encode() for key, part in parts.items()}
    return files | ({"x/" + ".".join("0" * len(document.get("shape", [4]))): chunk} if chunk else {})


@pytest.mark.parametrize("filters", [
    [{"id": "astype", "encode_dtype": "|i1", "decode_dtype": "<c16"}] * 5, [{"id": "packbits"}] * 6,
    [{"id": "delta", "dtype": "<f8", "astype": "|u1"},
     {"id": "quantize", "digits": 3, "dtype": "<f8", "astype": "<f2"}] * 3,
    *([{"id": "fixedscaleoffset", "dtype": "<f8", "astype": "|i1", "offset": 0, "scale": 1} | lists]
      for lists in ({"scale": [[1]] * 40_000}, {"offset": [[0]] * 40_000})),
], ids=["astype", "packbits", "several", "scales", "offsets"])  # fmt: skip
def test_filters_of_numbers_do_not_multiply_what_a_chunk_has(filters):
    files = _of_text(b"\1" * 1000, shape=[1000], chunks=[1000], dtype="|u1", filters=filters, fill_value=0)
    with ends(), pytest.raises((ChunkError, MetadataError), match=r"more than|are numbers"):
        trees.read_builder(files)["x"].data[:]


# ``numcodecs.ZFPY(tolerance=0.001)`` of six numbers
_ZFP = bytes.fromhex("7a66700552000000000090ca03ed1400000000052d5800000000000000000000")


@pytest.mark.parametrize(("bit", "bits", "value", "said"), [
    (0, 0, 0, ""), (36, 48, 10**8, "more than"), (0, 8, 0, "cut short"), (84, 12, 2047, "cut short"),
], ids=["whole", "length", "mark", "mode"])  # fmt: skip
def test_zfp_reads_nothing_beyond_a_chunk(monkeypatch, bit, bits, value, said):
    """The library reads as much as the header says, whatever the length of the chunk."""
    given: list[int] = []

    def decompress_numpy(data: Any) -> Any:
        given.append(len(data))
        assert bytes(data[: len(_ZFP)]) == _ZFP
        return np.arange(6, dtype="<f4")

    monkeypatch.setattr("numcodecs.zfpy._zfpy", SimpleNamespace(decompress_numpy=decompress_numpy))
    codec_class = type("ZFPY", (numcodecs.CRC32,), {"codec_id": "zfpy"})
    monkeypatch.setitem(numcodecs.registry.codec_registry, "zfpy", codec_class)
    number = int.from_bytes(_ZFP, "little")
    number += (value - (number >> bit & 2**bits - 1)) << bit
    chunk = number.to_bytes(len(_ZFP), "little")
    files = _of_text(chunk, shape=[6], chunks=[6], dtype="<f4", compressor={"id": "zfpy"}, fill_value=0)
    array = trees.read_builder(files)["x"].data
    if said:
        with pytest.raises(ChunkError, match=said):
            array[:]
        assert not given
    else:
        assert array[:].tolist() == list(range(6))
        assert given[0] >= len(_ZFP) + 2 * 4 * 4  # two blocks of four numbers


_BEYOND = np.array([0x61, 0x110000], "<u4").tobytes()
"""Two characters, of which Unicode does not have the second."""

_ROW: Any = [["n", "<i4"], ["text", [["inner", "<U2", [2]]]]]
_LARGE = np.pad(np.frombuffer(_BEYOND, "<u4"), (0, 2**20 - 2))


@pytest.mark.parametrize("files", [
    _of_text(2 * _BEYOND),
    _of_text(np.frombuffer(2 * _BEYOND, "<u4").byteswap().tobytes(), dtype=">U2"),
    _of_text(2 * (b"1234" + 2 * _BEYOND), dtype=_ROW),
    _of_text(2 * _BEYOND, filters=[{"id": "delta", "dtype": "<u4"}]),
    _of_text(b"\2\0\0\0" + 2 * (b"\x08\0\0\0" + _BEYOND), dtype="|O",
             filters=[{"id": "vlen-array", "dtype": "<U2"}]),
    _of_text(2 * (b"1234" + _BEYOND), dtype="|O", chunks=[2, 2], shape=[4, 2],
             filters=[{"id": "struct", "fields": [["n", "<i4", "number"], ["text", "<U2", "text"]]}]),
    _of_text(numcodecs.Blosc().encode(_LARGE), compressor=numcodecs.Blosc().get_config(), chunks=[2**19],
             shape=[2**20]),
    _of_text(fill_value=base64.b64encode(b"1234" + 2 * _BEYOND).decode(), dtype=_ROW),
])  # fmt: skip
def test_a_character_beyond_unicode_is_damage(files):
    """NumPy makes an invalid text of it, which ends in `SystemError` where a message quotes it."""
    for key in (0, slice(None), slice(1)):
        with pytest.raises((ChunkError, MetadataError), match="Unicode does not have"):
            trees.read_builder(files)["x"].data[key]


def test_an_attribute_of_a_character_beyond_unicode_is_damage():
    remark = {"dtype": "<U2", "shape": [1], "base64": True}
    coded = base64.b64encode(_BEYOND).decode()
    files = _of_text(attributes={"a": coded, "_hdmf": {"attributes": {"a": remark}}})
    with pytest.raises(MetadataError, match="Unicode does not have"):
        trees.read_builder(files)["x"].attributes["a"]


@pytest.mark.parametrize("dtype", ["|S0", "|V0", "<U0", []], ids=str)
def test_elements_without_bytes_are_compared(dtype):
    files = _of_text(dtype=dtype, fill_value=0)
    assert compare(files, files) == []


@pytest.mark.parametrize("value", [5, [5, 6], None, True], ids=repr)
def test_a_fill_value_of_bytes_in_a_row_that_is_not_text(value):
    """NumPy would make text of a number."""
    field = {"name": "a", "data_type": {"name": "null_terminated_bytes", "configuration": {"length_bytes": 3}}}
    row = {"name": "struct", "configuration": {"fields": [field]}}
    files = change(listed(3), "plain/zarr.json", lambda d: d.update(data_type=row, fill_value={"a": value}))
    with pytest.raises(MetadataError, match="the bytes of 'a' are not Base64"):
        trees.read_builder(files)


@pytest.mark.parametrize("value", [5.0, "5", None], ids=repr)
def test_a_fill_value_of_a_complex_number_in_a_row_has_two_parts(value):
    stored = {"name": "struct", "configuration": {"fields": [{"name": "a", "data_type": "complex64"}]}}
    with pytest.raises(MetadataError, match="does not fit"):
        fill_from_format_3({"a": value}, [["a", "<c8"]], stored)


def test_fill_values_of_rows_beyond_unicode_or_that_are_objects_are_refused():
    files = _of_text(dtype=[["a", "<i4"]], fill_value={"a": 5})
    with pytest.raises(MetadataError, match="it is not a single value"):
        trees.read_builder(files)["x"].data[:]
    row = base64.b64encode(b"1234" + _BEYOND).decode()
    with pytest.raises(MetadataError, match="Unicode does not have"):
        fill_in_format_3(row, [["n", "<i4"], ["text", "<U2"]], encode_type([["n", "<i4"], ["text", "<U2"]]))


# ---- sizes ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", [[2**63, 4], [2**64, 4], [10**30, 4], [2**62, 2**62]])
def test_shapes_beyond_what_an_index_can_be(shape):
    files = change(listed(2), "plain/.zarray", lambda d: d.update(shape=shape))
    with ZarrIO(files, read_options=ReadOptions(limits=LIMITS)) as io:
        data = io.read_builder()["plain"].data
        for key in ((), slice(None), (slice(None), 0), Ellipsis):
            with pytest.raises(LimitError):
                data[key]
        assert data[1, 0] == 4
        assert data[1:2, :4].tolist() == [[4, 5, 6, 7]]


# ---- names ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["\ud800", "a\0b", "x" * 300, "x/" * 400 + "y"])
def test_names_that_no_file_system_has(name, tmp_path):
    path = tmp_path / "file.zarr"
    files = written(2)
    document = json.loads(files[".zmetadata"])
    for key in (".zarray", ".zattrs"):
        document["metadata"][f"{name}/{key}"] = document["metadata"][f"scalar/{key}"]
    files[".zmetadata"] = json.dumps(document).encode()
    assert look(put(files, path))[0] in ("", "StoreError", "MetadataError")


def test_a_thousand_groups_inside_of_each_other():
    files = written(3)
    document = json.loads(files["zarr.json"])
    metadata = document["consolidated_metadata"]["metadata"]
    for depth in range(1, 1500):
        metadata["/".join("g" * depth)] = {"zarr_format": 3, "node_type": "group"}
    files["zarr.json"] = json.dumps(document).encode()
    with pytest.raises(ZarrBackendError):
        use(files)


@pytest.mark.parametrize("version", ["2.\u00b2", "9" * 5000, f"2.{'9' * 5000}.0"], ids=lambda version: version[:5])
def test_versions_that_are_no_numbers(tmp_path, version, zarr_format):
    path = tmp_path / "a.zarr"
    with warnings.catch_warnings(action="ignore"):
        trees.write_builder(path, trees.root(nwb_version=version), zarr_format=zarr_format)
        with NWBZarrIO(path, "r") as io:
            assert io.nwb_version[0] == version
            with pytest.raises(ContainerError):  # it has nothing else of an NWB file
                io.read()


# ---- what is printed ------------------------------------------------------------------------------------------------
MARKS = ["\x1b]0;owned\x07", "\x1b[31mred", "\x9b31mred", "\u202eevil", "a\rb", "x\nno damage found", "\x08\x08",
         "\x7f", "\x85", "\u2028", "\u2066i", "\x1b[2K"]  # fmt: skip


def marked(path: Path, shift: float, *, is_linked: bool = True) -> Path:
    """Write a file whose names, attributes, types, fields and targets of links have control characters."""
    root = trees.root(**{f"of {mark}": mark for mark in MARKS}, nwb_version="2.9.0")
    for mark in MARKS:
        root.set_dataset(trees.dataset(f"d{mark}", np.arange(3.0) + shift, attributes={mark: "a" if shift else "b"}))
        words = [{"name": mark, "dtype": "int32"}, {"name": "x", "dtype": "float64"}]
        root.set_dataset(trees.dataset(f"r{mark}", np.zeros(2, [(mark, "<i4"), ("x", "<f8")]), words))
        root.set_group(trees.group(f"g{mark}", neurodata_type=f"T{mark}", namespace=mark, text=mark))
        root.set_dataset(trees.dataset(f"t{mark}", [mark, "x" if shift else "y"]))
    trees.write_builder(path, root)
    if is_linked:
        links = [{"name": f"l{mark}", "source": source, "path": f"/{mark}"}
                 for mark in MARKS for source in (".", f"../{mark}")]  # fmt: skip
        change_attributes(path, "", lambda attributes: attributes.update(zarr_link=links, to=links[0]))
    return path


def is_clean(text: str) -> bool:
    """Return whether text has no control characters but newlines, and no line that comes from a name."""
    return all(line.isprintable() and not line.startswith("no damage") for line in text.split("\n"))


COMMANDS = {
    "inspect": ["inspect", "--all", "--attributes", "--sizes", "--verbose", "a.zarr"],
    "inspect --json": ["inspect", "--json", "a.zarr"], "inspect --model": ["inspect", "--model", "c.zarr"],
    "verify": ["verify", "-v", "a.zarr", "c.zarr"], "verify --dandi": ["verify", "-v", "--dandi", "a.zarr"],
    "verify --level schema": ["verify", "--level", "schema", "a.zarr"], "validate": ["validate", "a.zarr", "c.zarr"],
    "compare": ["compare", "-v", "a.zarr", "b.zarr"], "diff --json": ["compare", "--json", "a.zarr", "b.zarr"],
    "diff HDF5": ["compare", "-v", "b.zarr", "c.h5"], "convert": ["convert", "a.zarr", "new.h5", "--no-check"],
    "convert, checked": ["convert", "c.zarr", "new.h5"], "dry-run": ["dry-run", "--all", "c.h5"],
    "repair": ["repair", "-v", "a.zarr"], "repair --drop-links": ["repair", "-v", "--drop-links", "a.zarr"],
    "consolidate": ["consolidate", "a.zarr"], "upgrade": ["upgrade", "--dry-run", "c.zarr"],
    "report": ["report", "a.zarr", "b.zarr", "-o", "page.html"], "a missing file": ["inspect", "no\x1b[31m\nfile.zarr"],
}  # fmt: skip


@pytest.fixture(scope="module")
def marked_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("marked")
    with warnings.catch_warnings(action="ignore"):
        marked(folder / "a.zarr", 0.0)
        marked(folder / "b.zarr", 1.0)
        marked(folder / "c.zarr", 0.0, is_linked=False)
        convert(folder / "c.zarr", folder / "c.h5", check=False)
    for path in (folder / "a.zarr").glob("d*/0"):
        path.write_bytes(b"x")
    return folder


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS.keys())
def test_nothing_of_a_file_controls_the_terminal(marked_files, tmp_path, monkeypatch, capsys, arguments):
    folder = Path(shutil.copytree(marked_files, tmp_path / "files"))
    for path in (folder / "a.zarr").glob("r*/.zarray"):
        path.write_text(path.read_text().replace('"blosc"', '"blosc\\u001b[31m"'))
    monkeypatch.chdir(folder)
    with warnings.catch_warnings(action="always"):
        main(arguments)
    captured = capsys.readouterr()
    assert captured.out or captured.err
    assert is_clean(captured.out), ascii(captured.out)
    assert is_clean(captured.err), ascii(captured.err)
    if "page.html" in arguments:
        assert is_clean((folder / "page.html").read_text())


def test_nothing_of_a_file_controls_the_terminal_of_a_python_program(marked_files):
    with warnings.catch_warnings(record=True, action="always") as heard:
        with ZarrIO(marked_files / "a.zarr", "r") as io:
            root = io.read_builder()
            shown = [io._repr_html_()]
            for builder in root.datasets.values():
                shown.append(repr(builder.data))
                try:
                    builder.data[:]
                except ZarrBackendError as error:
                    shown.append(str(error))
        shown += map(str, verify(marked_files / "a.zarr").problems)
        shown += map(str, compare(marked_files / "a.zarr", marked_files / "b.zarr"))
        with pytest.raises(ZarrBackendError) as caught:
            ZarrIO("no\x1b\nfile.zarr", "r").read_builder()
        shown += [str(caught.value), *(str(warning.message) for warning in heard)]
    assert len(heard) >= len(MARKS)
    assert [ascii(text) for text in shown if not is_clean(text)] == []


# ---- what a library in Rust panics at ------------------------------------------------------------------------------


# Google's client looks for credentials first, for a quarter of a minute
@pytest.mark.parametrize("scheme", ["http", "s3", pytest.param("gs", marks=pytest.mark.slow), "az"])
def test_a_link_to_a_url_that_nobody_can_request(tmp_path, scheme):
    marked(tmp_path / "a.zarr", 0.0, is_linked=False)
    links = [{"name": "far", "source": f"{scheme}://127.0.0.1:1/{'a' * 70_000}", "path": "/x"}]
    change_attributes(tmp_path / "a.zarr", "", lambda attributes: attributes.update(zarr_link=links))
    with pytest.warns(BrokenLinkWarning, match="70,0.. characters"), ZarrIO(tmp_path / "a.zarr", "r") as io:
        assert not io.read_builder().links
    problems = verify(tmp_path / "a.zarr", "links").problems
    assert [(problem.path, problem.kind) for problem in problems] == [("/far", "link-dangling")]


@pytest.mark.parametrize(("options", "match"), [
    ({"endpoint_url": ""}, "endpoint '' is not a URL"), ({"endpoint_url": "host:9000"}, "'host:9000' is not a URL"),
    ({"endpoint_url": "/relative"}, "'/relative' is not a URL"),
    ({"token": "x\n"}, "'session_token' has a line break"),
    ({"key": "a\r\n", "secret": "b"}, "'access_key_id' has a line break"),
    ({"client_options": {"default_headers": {"authorization": "token x\n"}}}, "'authorization' has a line break"),
], ids=str)  # fmt: skip
def test_options_of_a_bucket_that_are_refused(options, match, capsys, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    options = {"endpoint_url": "http://127.0.0.1:9", "retry_config": {"max_retries": 0}, **options}
    with pytest.raises(UsageError, match=match) as caught:
        ZarrIO("s3://bucket/a.zarr", "r", storage_options=options).read_builder()
    assert "\n" not in str(caught.value)
    given = [f"-O{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in options.items()]
    assert main(["inspect", "s3://bucket/a.zarr", *given]) == 2
    assert "panicked" not in capsys.readouterr().err


@pytest.mark.parametrize("options", [{"allow_http": True}, {"timeout": "5s"}, {"user_agent": "me"}], ids=str)
def test_options_of_the_connection_are_taken_without_client_options(options, s3):
    location, chosen = s3.url("a.zarr"), {**s3.options, **options}
    trees.write_builder(location, trees.root(trees.dataset("x", np.arange(3))), storage_options=chosen)
    assert trees.read_builder(location, storage_options=chosen)["x"].data[:].tolist() == [0, 1, 2]


def test_a_panic_of_the_library_is_an_error_of_the_store(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x\n")  # read by the library alone
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    options = {"endpoint_url": "http://127.0.0.1:9", "retry_config": {"max_retries": 0}}
    with pytest.raises(errors.StoreError, match="its library failed"):
        ZarrIO("s3://bucket/a.zarr", "r", storage_options=options)


# ---- what takes the square of the time ------------------------------------------------------------------------------
@pytest.mark.parametrize(("key", "inside"), [
    *((key, b'\\"') for key in (".zattrs", "flags/.zarray", "inner/.zgroup", ".zmetadata", "zarr.json")),
    *((".zattrs", inside) for inside in (b'"', b"\\\\", b'"["', b"[")),
], ids=ascii)  # fmt: skip
def test_brackets_before_an_open_text(key, inside):
    """Hours, if it took the square of the time."""
    files = written(3 if key == "zarr.json" else 2)
    if key != ".zmetadata":
        files.pop(".zmetadata", None)
    files[key] = b'{"a":' + b"[" * 1001 + b'"' + inside * (2**21 // len(inside))
    with warnings.catch_warnings(action="ignore"):
        outcome, kinds = look(files)
    assert outcome == ("" if key == ".zmetadata" else "MetadataError")
    assert kinds & {"document-damaged", "consolidated-damaged", "limit"}


def test_an_object_with_many_attributes_becomes_hdf5_in_linear_time(tmp_path):
    count = 10_000

    def with_attributes(number: int) -> None:
        trees.write_builder(tmp_path / "a.zarr", trees.root(trees.group("box", **{f"a{n}": n for n in range(number)})))
        convert(tmp_path / "a.zarr", tmp_path / f"{number}.h5", check=False, overwrite=True)

    assert_linear(with_attributes, count)
    with_attributes(2)
    for number in (2, count):
        with h5py.File(tmp_path / f"{number}.h5") as file:
            assert len(file["box"].attrs) == number
            assert file["box"].attrs[f"a{number - 1}"] == number - 1
        superblock = (tmp_path / f"{number}.h5").read_bytes()[8]
        assert (superblock == 0) == (number < count)  # HDF5 before 1.8 reads no other


def nested(path: Path, depth: int, *, full: bool = False) -> Path:
    """Write groups inside of each other; in full, each with a dataset and links."""
    with h5py.File(path, "w") as file:
        group = file.id
        for _ in range(depth):
            group = h5py.h5g.create(group, b"g")
            if full:
                h5py.h5d.create(group, b"x", h5py.h5t.NATIVE_INT8, h5py.h5s.create(h5py.h5s.SCALAR))
                group.links.create_soft(b"soft", b"/g")
                group.links.create_hard(b"hard", file.id, b"/g")
    return path


@pytest.mark.slow
def test_nested_groups_are_compared_and_converted_in_linear_time(tmp_path):
    paths = {depth: nested(tmp_path / f"{depth}.h5", depth, full=True) for depth in (19, 495, 1980)}

    def there_and_back(depth: int) -> None:
        convert(paths[depth], tmp_path / "a.zarr.zip", check=False, overwrite=True)
        convert(tmp_path / "a.zarr.zip", tmp_path / "b.h5", check=False, overwrite=True)

    assert_linear(lambda depth: compare(paths[depth], paths[depth]), 1980)
    assert_linear(there_and_back, 1980)
    there_and_back(1980)
    assert compare(paths[1980], tmp_path / "b.h5") == []


def test_groups_that_are_nested_too_deep_are_not_compared(tmp_path):
    path = nested(tmp_path / "a.h5", 2001)
    with pytest.raises(LimitError, match="nested 2,001 deep or deeper: the limit max_depth is 2,000") as caught:
        compare(path, path)
    assert caught.value.store == str(path)


def test_a_type_of_hdf5_that_is_nested_too_deep(tmp_path):
    """h5py takes seconds for a type of hundreds of levels: it is refused, and its values are compared as bytes."""
    path = tmp_path / "a.h5"
    tid = h5py.h5t.STD_I32LE
    for _ in range(250):
        outer = h5py.h5t.create(h5py.h5t.COMPOUND, 4)
        outer.insert(b"a", 0, tid)
        tid = outer
    with h5py.File(path, "w") as file:
        h5py.h5d.create(file.id, b"x", tid, h5py.h5s.create_simple((3,)))
    with ends():
        assert compare(path, path) == []
        with pytest.raises(errors.ValueRefusedError, match="nested more than 32 deep") as caught:
            convert(path, tmp_path / "a.zarr", check=False)
    assert caught.value.path == "/x"


# ---- chunks that are gone, or were never there ----------------------------------------------------------------------
TARGETS = pytest.mark.parametrize(("target", "options"), [("a.h5", {}), ("a.zarr", {"zarr_format": 3})])
FILL = ReadOptions(missing_chunks="fill")


def large() -> Files:
    data = ZarrDataIO(np.arange(2**20, dtype="i4"), chunks=(2**16,), compressor={"id": "zlib", "level": 1})
    return trees.write_builder({}, trees.root(trees.dataset("large", data)))


GONE = {"plain": "plain/0.0", "squeezed": "squeezed/1.1", "texts": "texts/0", "references": "references/0",
        "rows": "rows/0.0", "large": "large/5"}  # fmt: skip
"""Array -> a chunk of it."""


def without_chunk(name: str) -> Files:
    files = large() if name == "large" else written(2)
    del files[GONE[name]]
    return files


def copy(source: Any, target: Any, read_options: ReadOptions | None = None, **options: Any) -> None:
    with ZarrIO(source, read_options=read_options) as io, ZarrIO(target, "w", **options) as out:
        out.export(io, write_args={"link_data": False})


@TARGETS
@pytest.mark.parametrize("name", GONE)
@pytest.mark.parametrize("executor", [None, "threads"])
def test_a_chunk_that_is_gone_is_not_copied_as_the_fill_value(tmp_path, name, target, options, executor):
    source = put(without_chunk(name), tmp_path / "source.zarr")
    with pytest.raises(ChunkError, match="not stored") as caught:
        convert(source, tmp_path / target, write_options=WriteOptions(executor=executor), **options)
    assert caught.value.path == f"/{name}"
    if name != "texts":  # which the consolidated document holds too
        with pytest.raises(ChunkError, match="not stored"):
            copy(source, tmp_path / target)
    if name not in ("references", "rows"):
        trees.read_builder(source)[name].data[:]  # reading is as it was
    assert [path.name for path in tmp_path.iterdir()] == ["source.zarr"]


@TARGETS
@pytest.mark.parametrize("name", ["plain", "large"])
def test_the_fill_value_is_copied_where_that_is_asked_for(tmp_path, name, target, options):
    source = put(without_chunk(name), tmp_path / "source.zarr")
    convert(source, tmp_path / target, read_options=FILL, **options)
    copy(source, tmp_path / "b.zarr", FILL)
    values = trees.read_builder(tmp_path / "b.zarr")[name].data[:]
    assert not values[0 if name == "plain" else slice(5 * 2**16, 6 * 2**16)].any()


def test_what_never_said_that_it_was_whole_is_copied(tmp_path):
    files = without_chunk("large")
    del files[".zmetadata"]
    files[".zattrs"] = b"{}"
    source = put(files, tmp_path / "source.zarr")
    convert(source, tmp_path / "a.zarr", zarr_format=3)
    with pytest.raises(ChunkError, match="not stored"):
        convert(source, tmp_path / "b.zarr", zarr_format=3, read_options=ReadOptions(missing_chunks="error"))


def test_a_gone_chunk_of_a_linked_file_is_told_too(tmp_path):
    put(without_chunk("large"), tmp_path / "other.zarr")
    with ZarrIO(tmp_path / "other.zarr") as other, ZarrIO(tmp_path / "a.zarr", "w") as io:
        io.write_builder(trees.root(trees.dataset("linked", other.read_builder()["large"].data)))
    with pytest.raises(ChunkError, match="not stored") as caught:
        convert(tmp_path / "a.zarr", tmp_path / "a.h5", link_data=False)
    assert "other.zarr" in str(caught.value)


def trillion(name: str) -> Files:
    return change(listed(2), f"{name}/.zarray", lambda d: d.update(
        shape=[2**40, *d["shape"][1:]], chunks=[1, *d["chunks"][1:]]))  # fmt: skip


@TARGETS
@pytest.mark.parametrize("name", ["plain", "texts", "references", "rows"])
def test_a_copy_of_a_trillion_chunks_is_refused(tmp_path, name, target, options):
    source = put(trillion(name), tmp_path / "source.zarr")
    with ends():
        with pytest.raises(LimitError, match="max_unwritten_bytes") as caught:
            convert(source, tmp_path / target, read_options=FILL, **options)
        assert caught.value.path == f"/{name}"
        with pytest.raises(LimitError, match="max_unwritten_bytes"):
            copy(source, tmp_path / "b.zarr", FILL)
    assert [path.name for path in tmp_path.iterdir()] == ["source.zarr"]


@pytest.mark.parametrize("name", ["plain", "texts"])
def test_an_array_of_a_trillion_chunks_is_not_changed(name):
    files = trillion(name)
    before = dict(files)
    with ZarrIO(files, "r+") as io, pytest.raises(LimitError, match="max_unwritten_bytes"):
        io.read_builder()[name].data.resize(10, axis=0)
    assert files == before


@pytest.mark.parametrize(
    "how", [{"chunks": (1000, 64)}, {"chunks": (1000, 64), "compression": "gzip"}, {}, {"dtype": h5py.string_dtype()}]
)
@pytest.mark.parametrize("options", [{}, {"codec": "zstd", "zarr_format": 3}])
def test_what_was_never_written_in_hdf5_is_not_made_without_end(tmp_path, how, options):
    source = tmp_path / "a.h5"
    with h5py.File(source, "w") as file:  # of some kilobytes; it states 128 GB
        file.create_dataset("box/large", shape=(10**9, 64), **{"dtype": "i2", **how})
    with pytest.raises(LimitError, match="max_unwritten_bytes"):  # first: it would not fill the disk
        dry_run(source, **options)
    with pytest.raises(LimitError, match=r"never written|ever written") as caught:
        convert(source, tmp_path / "a.zarr", **options)
    assert (caught.value.store, caught.value.path) == (str(source), "/box/large")
    assert "the limit max_unwritten_bytes is 68,719,476,736" in str(caught.value)
    assert "limits=Limits(max_unwritten_bytes=2**" in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]


def by_export(source: Path, target: Path, **options: Any) -> None:
    with HDF5IO(str(source), "r", manager=get_manager()) as io, ZarrIO(target, "w", **options) as out:
        out.export(io)


@pytest.mark.parametrize("call", [convert, dry_run, by_export])
def test_the_limit_of_what_was_never_written_in_hdf5_can_be_raised(tmp_path, call):
    source, target = tmp_path / "a.h5", tmp_path / "a.zarr"
    with h5py.File(source, "w") as file:
        file.create_dataset("x", shape=(8, 10_000), chunks=(1, 10_000), dtype="i8")[:2] = 1
    never = 6 * 10_000 * 8
    with pytest.raises(LimitError, match="6 of its 8 chunks were never written, and would be 480,000 bytes") as caught:
        call(source, target, read_options=ReadOptions(limits=Limits(max_unwritten_bytes=never - 1)))
    assert caught.value.path == "/x"
    assert not target.exists()
    call(source, target, read_options=ReadOptions(limits=Limits(max_unwritten_bytes=never)))
    if call is not dry_run:
        assert trees.read_builder(target)["x"].data[:, 0].tolist() == [1, 1, 0, 0, 0, 0, 0, 0]


def test_the_chunks_that_are_there_are_counted(tmp_path):
    source = put(large(), tmp_path / "source.zarr")

    def export(most: int) -> None:
        copy(source, tmp_path / "b.zarr", ReadOptions(limits=Limits(max_unwritten_bytes=most), missing_chunks="fill"))

    export(0)
    for number in range(2):
        (source / f"large/{number}").unlink()
    export(2 * 2**18)
    (source / "large/7").unlink()
    with pytest.raises(LimitError, match="16 chunks are stated, and at most"):
        export(2 * 2**18)


# ---- values of stores that are not local ----------------------------------------------------------------------------
def check_limit_of_what_is_stored(place: Any, **options: Any) -> None:
    size = max(map(len, large().values()))
    for most in (size, 20_000):
        with ZarrIO(place, read_options=ReadOptions(limits=Limits(max_stored_bytes=most)), **options) as io:
            data = io.read_builder()["large"].data
            if most == size:
                assert data[-1] == 2**20 - 1
                continue
            with pytest.raises(LimitError, match="max_stored_bytes"):
                data[-1]


@pytest.mark.parametrize("store", ["memory-url", "s3", "s3fs", "zip", "zarr-memory"], indirect=True)
def test_the_limit_of_what_is_stored_holds_wherever_it_is(store):
    copy(large(), store.place("a.zarr"), **store.options)
    check_limit_of_what_is_stored(store.place("a.zarr"), **store.options)


def test_the_limit_of_what_is_stored_holds_on_a_web_server(web):
    put(large(), web.folder / "a.zarr")
    check_limit_of_what_is_stored(f"{web.url}/a.zarr")


def test_a_shard_that_states_a_huge_chunk(tmp_path):
    data = ZarrDataIO(np.arange(64, dtype="i4"), chunks=(8,), shards=(64,))
    files = trees.write_builder({}, trees.root(trees.dataset("sharded", data)), zarr_format=3)
    shard = bytearray(files["sharded/c/0"])
    index = np.frombuffer(shard[-8 * 16 - 4 : -4], "<u8").copy()
    index[1] = 2**60
    shard[-8 * 16 - 4 :] = CRC32C().encode(index.tobytes())
    files["sharded/c/0"] = bytes(shard)
    with ZarrIO(put(files, tmp_path / "a.zarr")) as io, pytest.raises(LimitError, match="max_stored_bytes"):
        io.read_builder()["sharded"].data[0]
