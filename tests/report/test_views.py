"""Results print, in Python and in a notebook, as the command about them prints."""

import html
import re

import numpy as np
import pytest

import hdmf_zarr_backend
from hdmf_zarr_backend import ZarrDataIO, compare, convert, dry_run
from hdmf_zarr_backend.cli.main import main
from tests.samples import plain_nwbfile, read_zarr, write_zarr
from tests.trees import dataset, read_builder, root, write_builder


@pytest.fixture
def pair(tmp_path):
    for name, values in (("a", [1, 2]), ("b", [1, 3])):
        attributes = {"namespace": "core", "neurodata_type": "NWBFile", "nwb_version": "2.9.0", "object_id": name}
        data = dataset("x", np.array(values), attributes={"unit": "<b>V</b>"})
        write_builder(tmp_path / f"{name}.zarr", root(data, **attributes))
    (tmp_path / "a.zarr/x/0").write_bytes(b"damaged")
    return str(tmp_path / "a.zarr"), str(tmp_path / "b.zarr")


@pytest.mark.parametrize("name", ["verify", "validate", "repair"])
def test_a_result_is_printed_as_by_its_command(name, pair, capsys):
    options = ["--installed"] if name == "validate" else []
    result = getattr(hdmf_zarr_backend, name)(pair[0], **({"use_cached": False} if options else {}))
    main([name, pair[0], *options])
    printed = capsys.readouterr().out.replace("; --verbose shows each", "")
    assert f"{result}\n" == f"{result!r}\n" == printed
    assert result._repr_html_() == f"<pre>{html.escape(str(result))}</pre>"
    assert "<b>" not in result._repr_html_()


def test_differences_are_printed_as_by_compare(pair, capsys):
    differences = compare(*pair)
    main(["compare", *pair])
    assert f"{differences}\n" == capsys.readouterr().out
    assert differences == list(differences) != []
    main(["compare", pair[1], pair[1]])
    same = compare(pair[1], pair[1])
    assert f"{same}\n" == capsys.readouterr().out
    assert same == []
    assert str(same).startswith("no differences (")


def test_a_conversion_and_a_plan_are_printed_as_by_their_commands(tmp_path, capsys):
    write_builder(tmp_path / "a.zarr", root(dataset("x", np.arange(200))))
    source, target = str(tmp_path / "a.zarr"), str(tmp_path / "a.h5")
    report = convert(source, target)
    main(["convert", source, target, "--overwrite"])
    assert re.sub(r" in [\d.]+ s$", "", capsys.readouterr().out.rstrip()) == str(report)
    assert "-&gt;" in report._repr_html_()
    plan = dry_run(target)
    main(["dry-run", target])
    assert capsys.readouterr().out == f"{target} as {plan}\n"
    assert "nothing is written" in plan._repr_html_()
    assert "<details" in plan._repr_html_()


def test_more_lines_than_a_page_are_counted(tmp_path):
    for name in ("a", "b"):
        datasets = (dataset(f"x{n}", np.array([n + (name == "a")])) for n in range(120))
        write_builder(tmp_path / f"{name}.zarr", root(*datasets))
    lines = str(compare(tmp_path / "a.zarr", tmp_path / "b.zarr")).splitlines()
    assert (len(lines), lines[-2:]) == (102, ["... and 20 more", "120 differences: 120 value"])


@pytest.mark.parametrize("shape", [(500,), (300, 20), (4, 30, 20)], ids=str)
def test_an_array_shows_path_unit_chunks_and_first_values(tmp_path, shape):
    values = np.arange(np.prod(shape)).reshape(shape)
    data = ZarrDataIO(values, chunks=tuple(n // 2 for n in shape))
    write_builder(tmp_path / "a.zarr", root(dataset("x", data, attributes={"unit": "<b>V</b>"})))
    array = read_builder(tmp_path / "a.zarr")["x"].data
    shown = array._repr_html_()
    assert "/x" in shown
    assert "&lt;b&gt;V&lt;/b&gt;" in shown
    assert '<rect class="chunk"' in shown
    assert str(values[tuple(slice(0, n) for n in ([1] * len(shape) + [5, 8])[-len(shape) :])]) in shown
    for chunk in (tmp_path / "a.zarr/x").glob("0*"):
        chunk.write_bytes(b"damaged")
    assert "Restore" in read_builder(tmp_path / "a.zarr")["x"].data._repr_html_()


def test_attributes_of_an_array_are_those_of_the_user(tmp_path):
    nwbfile = plain_nwbfile()
    nwbfile.add_trial(start_time=0.0, stop_time=1.0)
    data = read_zarr(write_zarr(tmp_path / "a.zarr", nwbfile)).trials["start_time"].data
    assert data.attrs.keys() == {"description", "neurodata_type"}
    assert data.node.attributes.keys() >= {"object_id", "namespace", "_ARRAY_DIMENSIONS"}
    with pytest.raises(TypeError):
        data.attrs["x"] = 1
