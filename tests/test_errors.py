"""Every error names the store, the node and a remedy; it survives a pickle, and is an instance of its familiar base."""

import ast
import copy
import pickle
import re
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from hdmf.backends.hdf5 import H5DataIO
from pynwb import TimeSeries
from pynwb.testing.mock.base import mock_TimeSeries
from pynwb.testing.mock.file import mock_NWBFile

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, errors
from hdmf_zarr_backend.errors import ZarrBackendError, at
from tests.samples import write_zarr

CLASSES = [getattr(errors, name) for name in errors.__all__ if name.endswith("Error")]


def test_all_errors_are_listed_and_drawn():
    result = {cls.__name__ for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, Exception)}
    assert result == set(errors.__all__)
    drawn = re.findall(r"^ *[│├└─ ]*(\w+Error)\b", errors.__doc__, re.MULTILINE)
    assert sorted(drawn) == sorted(cls.__name__ for cls in CLASSES)


@pytest.mark.parametrize("cls", CLASSES)
def test_the_message_has_all_parts_also_from_another_process(cls):
    error = cls("it is broken", store="/a.zarr", path="/g/x", remedy="Mend it.", remedy_cli="Use --mend.")
    assert str(error) == "/a.zarr: it is broken (/g/x). Mend it."
    assert error.cli_text() == "/a.zarr: it is broken (/g/x). Use --mend."
    assert (error.problem, error.store, error.path) == ("it is broken", "/a.zarr", "/g/x")
    assert (error.remedy, error.remedy_cli) == ("Mend it.", "Use --mend.")
    advice = f". {cls.advice}" if cls.advice else ""
    assert str(cls("it is broken")) == f"it is broken{advice}"
    assert str(cls("it is broken", path="")) == f"it is broken (/){advice}"
    assert isinstance(error, ZarrBackendError)
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is cls
        assert str(other) == str(error)
        assert (other.store, other.path) == ("/a.zarr", "/g/x")
        assert (other.remedy, other.remedy_cli) == ("Mend it.", "Use --mend.")


@pytest.mark.parametrize(("url", "shown"), [
    ("https://me:secret@host:8000/a.zarr", "https://***@host:8000/a.zarr"),
    ("s3://b/a?X-Amz-Signature=secret&X-Amz-Date=1", "s3://b/a?X-Amz-Signature=***&X-Amz-Date=1"),
    ("https://host/a?sv=1&sig=secret%3D", "https://host/a?sv=1&sig=***"),
    ("https://host/a?GoogleAccessId=secret&Expires=1", "https://host/a?GoogleAccessId=***&Expires=1"),
    ("abfs://container@account.host/a", "abfs://container@account.host/a"),  # no password
    ("/me:secret@host/a?sig=b", "/me:secret@host/a?sig=b"),  # a path
])  # fmt: skip
def test_a_message_shows_no_secret_of_a_url(url, shown):
    error = ZarrBackendError(f"no answer from {url}", store=url, remedy=f"Look at {url}.")
    assert str(error) == f"{shown}: no answer from {shown}. Look at {shown}."
    assert error.store == url
    with pytest.warns(UserWarning) as caught:
        errors.warn(f"no lock for {url!r}")
    assert str(caught[0].message) == f"no lock for {shown!r}"


def write_given(path):
    """Write data with an HDF5 filter, which Zarr does not have, in the ways in which users write."""
    nwbfile = mock_NWBFile()
    nwbfile.add_acquisition(TimeSeries(name="raw", data=H5DataIO([1.0], compression="gzip"), unit="V", rate=1.0))
    with NWBZarrIO(path, "w") as io:  # here, since the warning names this file
        io.write(nwbfile)


def export_linked(path):
    write_zarr(path, mock_NWBFile())
    with NWBZarrIO(path) as source, NWBZarrIO(f"{path}.copy", "w") as io:
        io.export(source, write_args={"link_data": True})


def drop_changes(path):
    write_zarr(path, mock_NWBFile(acquisition=[mock_TimeSeries(name="raw")]))
    with suppress(KeyError), NWBZarrIO(path, "r+") as io:
        io.read().acquisition["raw"].data.append(1.0)
        raise KeyError


@pytest.mark.parametrize(
    "act", [lambda path: ZarrDataIO([1], link_data=True), write_given, export_linked, drop_changes]
)
def test_a_warning_is_shown_at_the_line_of_the_user(tmp_path, act):
    with pytest.warns(UserWarning) as caught:
        act(tmp_path / "a.nwb.zarr")
    assert [each.filename for each in caught] == [__file__]


@pytest.mark.parametrize("cls", CLASSES)
def test_places_are_filled_in_where_they_were_not_known(cls):
    error = cls("it is broken", remedy="Mend it.")
    with pytest.raises(cls) as caught, at(SimpleNamespace(location="/a.zarr"), "other"), at(path="x"):
        raise error
    assert caught.value is error
    assert str(error) == "/a.zarr: it is broken (/x). Mend it."
    error.problem = "it is worse"
    assert str(error) == "/a.zarr: it is worse (/x). Mend it."
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_path_of_any_length_is_shown_in_part():
    error = ZarrBackendError("it is bad", path=f"a{'b' * 65_000}c")
    assert len(str(error)) < 1100
    assert re.fullmatch(r"it is bad \(/ab+\.\.\.b+c\)", str(error))
    assert error.path == f"/a{'b' * 65_000}c"


def test_errors_of_others_are_left_as_they_are():
    with pytest.raises(ValueError, match="none of ours"), at("/a.zarr", "x"):
        raise ValueError("none of ours")


@pytest.mark.parametrize(("cls", "base"), [
    (errors.StoreNotFoundError, FileNotFoundError), (errors.StoreExistsError, FileExistsError),
    (errors.ReferenceTargetError, KeyError), (errors.NameRefusedError, ValueError),
    (errors.ValueRefusedError, TypeError), (errors.UsageError, ValueError), (errors.ModeError, errors.UsageError),
    (errors.MetadataError, errors.DamagedFileError), (errors.ConflictError, errors.WriteError),
    (errors.NotZarrError, errors.StoreError), (errors.IsHdf5Error, errors.NotZarrError),
])  # fmt: skip
def test_who_handles_the_familiar_error_handles_ours(cls, base):
    with pytest.raises(base):
        raise cls("it is broken")


def raised_without_remedy(path: Path) -> list[str]:
    """Return where a module raises an error of this package that says nothing about what to do."""
    result = []
    for statement in ast.walk(ast.parse(path.read_text())):
        call = statement.exc if isinstance(statement, ast.Raise) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name | ast.Attribute):
            continue
        kind = getattr(errors, call.func.id if isinstance(call.func, ast.Name) else call.func.attr, None)
        is_ours = isinstance(kind, type) and issubclass(kind, ZarrBackendError)
        if is_ours and not kind.advice and not any(keyword.arg in ("remedy", None) for keyword in call.keywords):
            result.append(f"{path.name}:{call.lineno}: {ast.unparse(call)}")
    return result


def test_every_error_that_is_raised_says_what_to_do():
    modules = sorted(Path(errors.__file__).parent.rglob("*.py"))
    assert len(modules) > 100
    assert [entry for module in modules for entry in raised_without_remedy(module)] == []
