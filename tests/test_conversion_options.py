"""`convert`: codecs by name, options that would have no effect, strict JSON, and shards that fit into the memory."""

import json
import re
from pathlib import Path
from typing import Any

import fsspec
import h5py
import numcodecs
import numpy as np
import pytest
import zarr
from hdmf.common import get_manager

from hdmf_zarr_backend import Limits, ReadOptions, ZarrDataIO, ZarrIO, convert
from hdmf_zarr_backend.comparison import compare
from hdmf_zarr_backend.dryrun import dry_run
from hdmf_zarr_backend.errors import ConflictError, DamagedFileError, FilterReplacedWarning, UsageError
from hdmf_zarr_backend.options import WriteOptions
from hdmf_zarr_backend.progress import Progress
from tests.options import arguments
from tests.places import stored_files
from tests.servers import S3Server
from tests.smallfiles import hdf5_dataset
from tests.trees import read_builder

VALUES = np.arange(2**20, dtype="i4").reshape(2**14, 64)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("values", data=VALUES, chunks=(2**11, 64), compression="gzip", shuffle=True)
        file["values"].attrs["resolution"] = np.float64("nan")
        file["values"].attrs["range"] = np.array([1.0, np.inf], "f4")
        file["values"].attrs["user"] = "NaN"
    return path


@pytest.mark.parametrize("codec", ["lz77", None, 3, {"level": 1}, "Keep"], ids=str)
@pytest.mark.parametrize("call", [convert, dry_run])
def test_invalid_codecs_are_refused(source: Path, tmp_path: Path, codec: Any, call: Any) -> None:
    with pytest.raises(UsageError, match="codec"):
        call(source, tmp_path / "a.zarr", codec=codec)
    assert not (tmp_path / "a.zarr").exists()


ANY: list[dict[str, Any]] = [{"codec": "zstd"}, {"resume": True}, {"strict_json": True}]


@pytest.mark.parametrize(("target", "others", "option"), [
    *(("b.zarr", {"zarr_format": 3}, option) for option in (*ANY, {"link_data": False})),
    *(("b.h5", {}, option) for option in (*ANY, {"nczarr": True}, {"shards": "auto"})),
], ids=str)  # fmt: skip
def test_options_without_effect_on_a_target_are_refused(source, tmp_path, target, others, option):
    convert(source, tmp_path / "a.zarr")
    with pytest.raises(UsageError, match=f"{next(iter(option))} does not apply here"):
        convert(tmp_path / "a.zarr", tmp_path / target, **others, **arguments(**option))
    assert not (tmp_path / target).exists()


@pytest.mark.parametrize(("option", "said"), [
    *(({name: value}, f"{name}=? does not apply here") for name, value in (
        ("doc", True), ("consolidate_metadata", False), ("commit_message", "new"), ("missing_chunks", "error"),
    )),
    ({"chunk_key_encoding": "v2"}, "only Zarr format 3 has chunk_key_encoding: .* of both"),
    ({"chunk_key_encoding": "v2", "zarr_format": "both"}, "only Zarr format 3 has chunk_key_encoding: .* of both"),
    ({"nczarr": True, "zarr_format": 3}, "NCZarr has no attributes in format 3"),
    ({"shards": "auto", "zarr_format": 2}, "Zarr format 2"),
    ({"zarr_format": 4}, "4 is not a Zarr format"),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("call", [convert, dry_run])
def test_a_dry_run_refuses_what_a_conversion_of_hdf5_refuses(source, tmp_path, call, option, said):
    with pytest.raises(UsageError, match=said) as caught:
        call(source, tmp_path / "a.zarr", **arguments(**option))
    assert caught.value.remedy
    assert not (tmp_path / "a.zarr").exists()


def test_documents_are_strict_json_on_request(source: Path, tmp_path: Path, zarr_format: Any) -> None:
    convert(source, tmp_path / "a.zarr", write_options=WriteOptions(strict_json=True), zarr_format=zarr_format)
    names = (".zattrs", ".zmetadata", "zarr.json")
    documents = [text for key, text in stored_files(tmp_path / "a.zarr").items() if key.endswith(names)]
    assert len(documents) > 1
    for text in documents:
        json.loads(text, parse_constant=pytest.fail)
    attributes = read_builder(tmp_path / "a.zarr")["values"].attributes
    assert (attributes["user"], attributes["range"].dtype) == ("NaN", np.dtype("f4"))
    convert(tmp_path / "a.zarr", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        attributes = file["values"].attrs
        assert np.isnan(attributes["resolution"])
        assert attributes["resolution"].dtype == "f8"
        assert attributes["range"].tolist() == [1.0, np.inf]
        assert attributes["range"].dtype == "f4"


def test_chosen_shards_fit_into_the_budget_of_a_store_of_complete_values(tmp_path: Path) -> None:
    budget, source = 2**22, tmp_path / "b.h5"
    hdf5_dataset(source, "values", data=np.zeros((2**19, 64), "i4"), chunks=(2**12, 64), compression="gzip")
    url = "memory://options/a.zarr"
    try:
        convert(source, url, zarr_format=3, shards="auto", write_options=WriteOptions(memory_budget=budget))
        plain, other = "memory://options/b.zarr", "memory://options/c.zarr"
        convert(url, plain, zarr_format=2)
        convert(plain, other, zarr_format=3, shards="auto", write_options=WriteOptions(memory_budget=budget))
        for result in (url, other):
            node = read_builder(result).datasets["values"].data.node.stored
            assert node.shards is not None
            assert np.prod(node.shards.shape) * 4 <= budget // 2
    finally:
        fsspec.filesystem("memory").rm("/options", recursive=True)


def test_a_shard_goes_to_a_bucket_in_parts(tmp_path: Path, s3: S3Server) -> None:
    values = np.random.default_rng(1).integers(0, 2**31, (6, 2**20), dtype="i4")  # 24 MB
    hdf5_dataset(tmp_path / "a.h5", "values", data=values, chunks=(1, 2**20))
    options = {"zarr_format": 3, "shards": (6, 2**20)}
    convert(tmp_path / "a.h5", tmp_path / "a.zarr", **options)
    s3.proxy.requests.clear()
    convert(tmp_path / "a.h5", s3.url("a.zarr"), storage_options=s3.options, **options)
    assert len([request for request in s3.proxy.requests if "partNumber=" in str(request)]) >= 3
    key = "a.zarr/values/c/0/0"
    assert s3.contents("a.zarr")[key.removeprefix("a.zarr/")] == (tmp_path / key).read_bytes()


@pytest.mark.parametrize("call", [convert, dry_run])
def test_a_raw_file_that_is_missing_is_named(tmp_path: Path, call: Any) -> None:
    raw, path, other = tmp_path / "raw.bin", tmp_path / "a.h5", tmp_path / "b.h5"
    for location, options in ((path, {"external": [(str(raw), 0, 8000)]}), (other, {})):
        hdf5_dataset(location, "box/x", data=np.arange(1000), **options)
    raw.unlink()
    with pytest.raises(DamagedFileError, match=r"external file '.*raw\.bin', which does not exist") as caught:
        call(path, tmp_path / "a.zarr")
    assert (caught.value.store, caught.value.path) == (str(path), "/box/x")
    assert "hdf5plugin" not in str(caught.value)
    (difference,) = [difference for difference in compare(path, other) if difference.kind == "unreadable"]
    assert (difference.path, difference.b) == ("/box/x", None)
    assert re.search(r"external file '.*raw\.bin', which does not exist", str(difference.a))
    assert "hdf5plugin" not in str(difference.a)


@pytest.mark.parametrize("formats", [(2, 3), (3, 2), (2, 2)], ids=str)
def test_an_export_keeps_the_largest_shape_of_rows(tmp_path: Path, formats: tuple[int, int]) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        texts = np.array([(1, "a"), (2, "b")], np.dtype([("i", "i4"), ("t", h5py.string_dtype())]))
        file.create_dataset("texts", data=texts, maxshape=(None,), chunks=(2,))
        rows = file.create_dataset("references", (2,), np.dtype([("i", "i4"), ("r", h5py.ref_dtype)]), maxshape=(9,))
        rows[0], rows[1] = (0, file["texts"].ref), (1, file.ref)
        file.create_dataset("bound", data=texts)
    convert(tmp_path / "a.h5", tmp_path / "a.zarr", zarr_format=formats[0])
    with (
        ZarrIO(tmp_path / "a.zarr", manager=get_manager()) as io,
        ZarrIO(tmp_path / "b.zarr", "w", manager=get_manager(), zarr_format=formats[1]) as out,
    ):
        out.export(io, write_args={"link_data": False})
    convert(tmp_path / "b.zarr", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        result = {name: file[name].maxshape for name in ("texts", "references", "bound")}
    assert result == {"texts": (None,), "references": (9,), "bound": (2,)}


# ---- settings by the pattern of a path ------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An HDF5 file with two series; ``data`` of one of them has a name in which a slash is not."""
    path = tmp_path_factory.mktemp("series") / "series.h5"
    with h5py.File(path, "w") as file:
        for name in ("probe", "video/eye"):
            group = file.create_group(f"acquisition/{name}")
            group.create_dataset("data", data=VALUES, chunks=(2**11, 64), compression="gzip", shuffle=True)
            group.create_dataset("timestamps", data=np.arange(2**14) / 30, maxshape=(None,), chunks=(2**13,))
            group["names"], group["rate"] = ["left", "right"], 30.0
    return path


def stored(path: Path, name: str) -> tuple[Any, ...]:
    array = zarr.open_group(path, mode="r")[f"acquisition/{name}"]
    codecs = [type(codec).__name__.lower().removesuffix("codec") for codec in (*array.filters, *array.compressors)]
    return array.shards or (), array.chunks, codecs


SETTINGS: dict[str, Any] = {
    "**": ZarrDataIO(compressor="zlib"),
    "acquisition/*/data": {"chunks": (3000, 16)},
    "/**/eye/da?a": {"chunk_elements": 2**12, "codec": numcodecs.Zstd(1)},
}


@pytest.mark.skipif(zarr.__version__ < "3", reason="the attributes of an array are those of zarr-python 3")
def test_settings_apply_by_pattern_and_the_rest_is_copied(series: Path, tmp_path: Path) -> None:
    planned = dry_run(series, settings=SETTINGS).arrays["/acquisition/probe/data"]
    assert (planned.chunks, planned.codecs) == ((3000, 16), ("zlib 4",))
    report = convert(series, tmp_path / "a.zarr", settings=SETTINGS)
    assert report.remarks[0].startswith("settings apply to 6 datasets: /acquisition/probe/data, ")
    assert stored(tmp_path / "a.zarr", "probe/data") == ((), (3000, 16), ["zlib"])
    assert stored(tmp_path / "a.zarr", "video/eye/data") == ((), (64, 64), ["zstd"])
    assert stored(tmp_path / "a.zarr", "probe/names")[2] == ["vlenutf8", "zlib"]
    assert compare(series, tmp_path / "a.zarr") == []
    # shards, from Zarr to Zarr; chunks are cut to what the dataset can become, and copied where they are equal
    settings = {"**/data": {"shards": (6000, 64), "chunks": (3000, 16)}, "**/timestamps": {"chunks": (2**16,)}}
    with pytest.raises(UsageError, match=r"neither Zarr format 2 nor .* has shards") as caught:
        convert(tmp_path / "a.zarr", tmp_path / "b.zarr", zarr_format=2, settings=settings)
    assert "zarr_format=3" in caught.value.remedy
    convert(tmp_path / "a.zarr", tmp_path / "b.zarr", settings=settings)  # as with shards= of the file, in format 3
    assert stored(tmp_path / "b.zarr", "probe/data")[:2] == ((6000, 64), (3000, 16))
    assert stored(tmp_path / "b.zarr", "probe/timestamps")[1] == (2**16,)  # which can grow
    # the shards that the source has become whole numbers of the new chunks
    convert(tmp_path / "b.zarr", tmp_path / "c.zarr", settings={"**/data": {"chunks": (2500, 99)}})
    assert stored(tmp_path / "c.zarr", "probe/data")[:2] == ((7500, 64), (2500, 64))
    assert compare(series, tmp_path / "c.zarr") == []


def test_settings_apply_to_hdf5(series: Path, tmp_path: Path) -> None:
    convert(series, tmp_path / "a.zarr")
    settings = {"**/probe/*": {"codec": "zlib"}, "**/eye/data": {"chunks": (1000, 16)}}
    convert(tmp_path / "a.zarr", tmp_path / "b.h5", settings=settings)
    with h5py.File(tmp_path / "b.h5") as file:
        probe, eye = file["acquisition/probe"], file["acquisition/video/eye"]
        assert (probe["data"].chunks, probe["data"].compression, probe["data"].shuffle) == ((2**11, 64), "gzip", False)
        assert (probe["timestamps"].compression, eye["timestamps"].compression) == ("gzip", None)
        assert (eye["data"].chunks, eye["data"].compression, eye["data"].shuffle) == ((1000, 16), "gzip", True)
    assert {each.kind for each in compare(series, tmp_path / "b.h5")} == {"chunks", "filters"}


def test_a_filter_of_hdf5_may_fail_for_a_chunk_that_does_not_shrink(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["noise"] = np.random.default_rng(0).integers(0, 256, 70, "u1")
        file["text"] = ["text of any length"] * 70
    convert(tmp_path / "a.h5", tmp_path / "a.zarr")
    settings = {"*": {"codec": numcodecs.Blosc(), "chunks": (8,)}}
    with pytest.warns(FilterReplacedWarning, match="filter 32001 is lossy, not for this type, or not installed"):
        convert(tmp_path / "a.zarr", tmp_path / "b.h5", settings=settings)
    found = {(each.path, each.kind) for each in compare(tmp_path / "a.h5", tmp_path / "b.h5")}
    assert found == {(path, kind) for path in ("/noise", "/text") for kind in ("chunks", "filters")}


@pytest.mark.parametrize(("settings", "target", "said", "remedy"), [
    ({"acquisition/*/dta": {"chunks": (3, 3)}}, "b.zarr", "no dataset with an axis", "'acquisition/probe/data'"),
    ({"acquisition/*/rate": {"codec": "zstd"}}, "b.zarr", "no dataset with an axis", "Did you mean"),
    ({"**": {"chunks": (3, 3)}}, "b.zarr", r"chunks \(3, 3\) do not fit the shape \(2,\)", "one length for each axis"),
    ({"**/data": {"shards": (9,)}}, "b.zarr", r"shards \(9,\) do not fit", "one length for each axis"),
    ({"**/data": {"shards": "auto"}}, "b.h5", "HDF5 has no shards", "Leave shards out"),
    ({"**/data": {"codec": numcodecs.LZMA()}}, "b.h5", "HDF5 has no filter", "zlib"),
    ({"**/data": {"chunk": (3, 3)}}, "b.zarr", "'chunk'", "Did you mean 'chunks'"),
    ({"**/data": {"fillvalue": 3}}, "b.zarr", "'fillvalue'", "It takes chunk_aspect_ratio, "),
    ({"**/data": {"codec": "lz77"}}, "b.zarr", "lz77", "'blosc'"),
    ({"**/data": {"codec": "zstd"}}, "b.zarr.json", "settings does not apply here", "Leave settings= out"),
], ids=str)  # fmt: skip
def test_settings_that_do_not_fit_are_refused(series, tmp_path, settings, target, said, remedy):
    source = series
    if target.endswith(".h5"):
        source = tmp_path / "a.zarr"
        convert(series, source)
    with pytest.raises(UsageError, match=said) as caught:
        convert(source, tmp_path / target, settings=settings, to="virtual" if target.endswith("json") else None)
    assert remedy in caught.value.remedy
    assert not (tmp_path / target).exists()


def test_a_conversion_is_not_resumed_with_other_settings(series: Path, tmp_path: Path) -> None:
    class Stop(Progress):
        def advance(self, path: str, done: int) -> None:
            if path.endswith("data"):
                raise KeyboardInterrupt

    settings, options = {"**/data": {"chunks": (100, 64)}}, WriteOptions(progress=Stop(), executor=None)
    with pytest.raises(KeyboardInterrupt):
        convert(series, tmp_path / "a.zarr", settings=settings, write_options=options)
    with pytest.raises(ConflictError, match=r"--set /\S+ was chunks=100,64 and is not given"):
        convert(series, tmp_path / "a.zarr", resume=True)
    convert(series, tmp_path / "a.zarr", settings=settings, resume=True)
    assert compare(series, tmp_path / "a.zarr") == []


def test_a_copy_that_keeps_its_format_is_read_within_the_given_limits():
    source = {f"{'g/' * depth}.zgroup": b'{"zarr_format": 2}' for depth in range(2_100)}
    limits = ReadOptions(limits=Limits(max_depth=2_100))
    assert convert(source, {}, check=False, read_options=limits).groups == 2_100
