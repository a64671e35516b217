"""`ZarrDataIO`: the planner gets the requested options, through every copy that hdmf makes."""

import copy
import inspect

import numcodecs
import numpy as np
import pytest
from hdmf.data_utils import DataChunkIterator, DataIO

from hdmf_zarr_backend.encoding.codecs import codec_config
from hdmf_zarr_backend.errors import UsageError, ValueRefusedError
from hdmf_zarr_backend.hdmf.dataio import ZarrDataIO
from hdmf_zarr_backend.options import CODECS
from tests.trees import dataset, read_builder, root, write_builder

OPTIONS = {
    "chunks": (2, 3), "fillvalue": 7, "compressor": numcodecs.Zlib(level=2), "filters": [numcodecs.Delta("i4")],
    "maxshape": (None, 3),
}  # fmt: skip


def test_the_options_are_kept_as_configurations():
    wrapped = ZarrDataIO(np.zeros((4, 3), "i4"), **OPTIONS)
    assert isinstance(wrapped, DataIO)
    assert wrapped.chunks == (2, 3)
    assert wrapped.fillvalue == 7
    assert wrapped.compressor == {"id": "zlib", "level": 2}
    assert wrapped.filters == [{"id": "delta", "dtype": "<i4", "astype": "<i4"}]
    assert wrapped.maxshape == (None, 3)
    assert wrapped.link_data is False


def _same_options(one: ZarrDataIO, other: ZarrDataIO) -> None:
    for name in ("chunks", "fillvalue", "filters", "link_data", "_maxshape"):
        assert getattr(one, name) == getattr(other, name)
    # True is the default, and so is nothing
    assert one.compressor == other.compressor or {one.compressor, other.compressor} == {None, True}
    assert one.io_settings == other.io_settings


@pytest.mark.parametrize("options", [
    OPTIONS, {}, {"compressor": False}, {"chunks": True, "compressor": True}, {"chunks": (2, 3), "shards": (4, 3)},
])  # fmt: skip
def test_hdmf_wraps_data_again_with_the_same_options(options):
    wrapped = ZarrDataIO(np.arange(12).reshape(4, 3), **options)
    parameters = set(inspect.signature(ZarrDataIO).parameters)
    assert set(wrapped.get_io_params()) <= parameters
    _same_options(type(wrapped)(data=[1], **wrapped.get_io_params()), wrapped)
    shallow, deep = copy.copy(wrapped), copy.deepcopy(wrapped)
    for other in (shallow, deep):
        assert type(other) is ZarrDataIO
        _same_options(other, wrapped)
        assert np.asarray(other.data).tolist() == wrapped.data.tolist()
    assert shallow.data is wrapped.data
    assert deep.data is not wrapped.data


@pytest.mark.parametrize(("compressors", "filters", "compressor"), [
    (numcodecs.Zstd(level=2), None, {"id": "zstd", "level": 2}),
    ([numcodecs.Shuffle(), numcodecs.Zlib(2)], [{"id": "shuffle", "elementsize": 4}], {"id": "zlib", "level": 2}),
    ({"name": "gzip", "configuration": {"level": 3}}, None, {"id": "gzip", "level": 3}),
    ("zstd", None, {"id": "zstd", "level": 3}), ([], None, False), (False, None, False), (True, None, True),
])  # fmt: skip
def test_compressors_are_given_as_in_014(compressors, filters, compressor):
    wrapped = ZarrDataIO([1], compressors=compressors)
    assert (wrapped.filters, wrapped.compressor) == (filters, compressor)
    _same_options(ZarrDataIO(data=[1], **wrapped.get_io_params()), wrapped)


@pytest.mark.parametrize(("options", "message"), [
    ({"compressors": numcodecs.Zstd(), "compressor": "zstd"}, "both given"),
    ({"serializer": numcodecs.Zstd()}, "is not accepted"), ({"filters": numcodecs.Delta("i4")}, "is not a list"),
    *(({"chunks": chunks}, "chunks") for chunks in (0, (2, -1), (None, 3), "ab", 1.5, (1.5,), False, object())),
    *(({"maxshape": maxshape}, "is not a shape") for maxshape in (-1, ("a",), (2.5,), True, 2.5)),
    *((option, "is not a codec") for codec in (object(), {}, {"level": 1}, 5)
      for option in ({"compressor": codec}, {"filters": [codec]})),
])  # fmt: skip
def test_an_option_that_makes_no_sense_is_refused(options, message):
    with pytest.raises(UsageError, match=message):
        ZarrDataIO([1], **options)


class Serializer:
    """A codec of zarr 3 that makes bytes."""

    def __init__(self, name: str, **configuration: str) -> None:
        self.document = {"name": name, **({"configuration": configuration} if configuration else {})}

    def __repr__(self) -> str:
        return "the codec"

    def to_dict(self):
        return self.document


def test_a_serializer_is_the_default_one_or_refused():
    for allowed in (Serializer("bytes"), Serializer("bytes", endian="little")):
        assert ZarrDataIO([1], serializer=allowed).filters is None
    for other in (Serializer("bytes", endian="big"), Serializer("vlen-utf8")):
        with pytest.raises(UsageError) as caught:
            ZarrDataIO([1], serializer=other)
        assert str(caught.value) == (
            "the serializer the codec is not accepted: text and byte order depend on the data. Leave serializer out; "
            "give data of the type to store."
        )


@pytest.mark.parametrize(("codec", "advice"), [
    ("lz9", (f"there is no codec with the name 'lz9'. Use {', '.join(map(repr, CODECS))}, or a codec of numcodecs or "
            "zarr.")),
    ({"level": 1}, ("{'level': 1} is not a codec. Give a codec of numcodecs or zarr, or its configuration, a dict with "
                   "'id' or 'name'.")),
    ({"name": "bytes"}, ("the codec 'bytes' is in a position that is not supported. Give a compressor or a filter; the "
                        "codecs that make bytes and shards are not given here.")),
])  # fmt: skip
def test_the_advice_for_a_codec(codec, advice):
    with pytest.raises(UsageError) as caught:
        ZarrDataIO([1], compressor=codec)
    assert str(caught.value) == advice


@pytest.mark.parametrize(
    ("chunks", "kept"), [(5, (5,)), (np.int32(5), (5,)), ([2, np.int8(3)], (2, 3)), (True, None), (None, None)]
)
def test_chunks_in_every_spelling(chunks, kept):
    assert ZarrDataIO([1], chunks=chunks).chunks == kept


@pytest.mark.parametrize(
    ("maxshape", "kept"), [(7, (7,)), (np.array([7]), (7,)), ((np.int8(7),), (7,)), ([None], (None,)), ((5,), (5,))]
)
def test_the_largest_shape_in_every_spelling(tmp_path, maxshape, kept):
    path = write_builder(tmp_path / "a.zarr", root(dataset("x", ZarrDataIO(np.arange(5), maxshape=maxshape))))
    assert read_builder(path)["x"].data.maxshape == kept


@pytest.mark.parametrize("data", [np.arange(5), [0, 1, 2, 3, 4], np.zeros(5, "i4,f8"), np.array(list("abcde"), object)])
@pytest.mark.parametrize("maxshape", [(4,), (None, None), ()])
def test_a_largest_shape_that_does_not_fit_the_data_is_refused_in_a_write(tmp_path, data, maxshape):
    with pytest.raises(UsageError, match=r"does not fit the shape \(5,\)"):
        write_builder(tmp_path / "a.zarr", root(dataset("x", ZarrDataIO(data, maxshape=maxshape))))
    assert not (tmp_path / "a.zarr").exists()


def test_codecs_may_be_given_as_configurations_and_zstd_loses_what_others_do_not_read():
    assert codec_config({"id": "zlib", "level": 1}) == {"id": "zlib", "level": 1}
    assert codec_config(numcodecs.Zstd(level=3)) == {"id": "zstd", "level": 3}
    assert codec_config({"id": "zstd", "level": 3, "checksum": False}) == {"id": "zstd", "level": 3}


def test_numpy_sees_the_data():
    wrapped = ZarrDataIO([1, 2, 3])
    assert np.asarray(wrapped).tolist() == [1, 2, 3]
    assert np.array(wrapped, dtype="f4").dtype == np.dtype("f4")
    assert np.array(wrapped, copy=True).tolist() == [1, 2, 3]
    assert len(wrapped) == 3
    assert wrapped[1] == 2


@pytest.mark.parametrize("data", [(i for i in range(3)), map(int, "12")], ids=["generator", "map"])
def test_the_advice_for_a_generator(data):
    with pytest.raises(UsageError, match=r"data cannot be a \w+, which has no shape. .*DataChunkIterator\(data=...\)"):
        ZarrDataIO(data)
    assert ZarrDataIO(DataChunkIterator(data=data)).valid


def test_the_largest_shape_is_that_of_the_data_where_none_is_given():
    assert ZarrDataIO(np.zeros((2, 3))).maxshape == (2, 3)
    assert ZarrDataIO(DataChunkIterator(data=iter([1]), maxshape=(None,))).maxshape == (None,)
    assert ZarrDataIO(shape=(4,), dtype="i4").maxshape == (4,)
    assert ZarrDataIO([1, 2], maxshape=[None]).maxshape == (None,)


@pytest.mark.parametrize(("options", "message"), [
    ({"chunk_elements": 0}, "not positive"),
    ({"chunk_elements": 1.5}, "are not valid"),
    ({"chunk_aspect_ratio": (1, 0)}, "not positive"),
    ({"chunk_aspect_ratio": "ab"}, "are not valid"),
    ({"chunk_elements": 5, "chunks": (2, 2)}, "chosen at once"),
])  # fmt: skip
def test_a_choice_of_chunks_that_is_none_is_refused(options, message):
    with pytest.raises(UsageError, match=message):
        ZarrDataIO(np.zeros((4, 4)), **options)


def test_a_filter_of_objects_after_that_of_text_is_refused(tmp_path):
    data = ZarrDataIO(np.array(["a", "b"], object), filters=[numcodecs.JSON()])
    with pytest.raises(ValueRefusedError, match=r"the values cannot be stored.*\(/x\)"):
        write_builder(tmp_path / "a.zarr", root(dataset("x", data)))


@pytest.mark.parametrize("codec", [
    numcodecs.FixedScaleOffset(offset=0, scale=10, dtype="<f8"), numcodecs.Quantize(digits=2, dtype="<f8"),
    numcodecs.AsType(encode_dtype="<f4", decode_dtype="<f8"), numcodecs.PackBits(),
], ids=lambda codec: codec.codec_id)  # fmt: skip
def test_a_filter_of_another_type_would_spoil_the_values(tmp_path, codec):
    for data in (np.arange(5), np.arange(5, dtype=">f8"), np.arange(5).astype("M8[s]")):
        with pytest.raises(UsageError, match=rf"'{codec.codec_id}' takes values of type .* \(/x\)"):
            write_builder(tmp_path / "a.zarr", root(dataset("x", ZarrDataIO(data, filters=[codec]))))
    own = np.array([True, False]) if codec.codec_id == "packbits" else np.arange(5.0)
    path = write_builder(tmp_path / "a.zarr", root(dataset("x", ZarrDataIO(own, filters=[codec]))))
    assert read_builder(path)["x"].data[:].tolist() == own.tolist()
