"""What pynwb and hdmf say of a file: the verdicts that ours are held against."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import pynwb
from hdmf.validate import ValidatorMap
from pynwb import NWBHDF5IO  # noqa: F401 # pynwb.validate opens HDF5 files by it
from pynwb.validation import get_cached_namespaces_to_validate

from hdmf_zarr_backend import NWBZarrIO
from hdmf_zarr_backend.checks.findings import Finding, Validation
from hdmf_zarr_backend.checks.hdmf_validator import finding_of

Places = frozenset[tuple[str, str | None, str]]

# what pynwb raises where it cannot validate: the file is not valid then
FAILURES = (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError)


class Verdict(NamedTuple):
    """What a validator says of a file.

    Attributes
    ----------
    places : frozenset
        ``(path, attribute, kind)`` of each error, None where the validator itself failed.
    failure : str
        How it failed.
    """

    places: Places | None
    failure: str = ""

    @property
    def is_valid(self) -> bool:
        """Whether there is no error."""
        return self.places is not None and not self.places


def of_errors(errors: list[Any]) -> Verdict:
    """Return the verdict of a list of errors of hdmf."""
    return Verdict(places_of(map(finding_of, errors)))


def of(result: Validation) -> Verdict:
    """Return the verdict of ours."""
    return Verdict(places_of(result.findings))


def places_of(findings: Any) -> Places:
    """Return the places of findings; hdmf has one word for a wrong type and for a text that is not a time."""
    return frozenset((f.path, f.attribute, _kind(f)) for f in findings)


def _kind(finding: Finding) -> str:
    return "dtype" if finding.kind == "time" and "ISO" in finding.message else finding.kind


def of_hdf5(path: Path) -> Verdict:
    """Return what ``pynwb.validate`` says of an HDF5 file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return of_errors(pynwb.validate(path=path))
        except FAILURES as error:
            return Verdict(None, f"{type(error).__name__}: {error}")


class Oracle:
    """What pynwb says of Zarr files that have the same namespaces cached; those are loaded once.

    It does what ``pynwb.validate(path=...)`` does, which has no way in for other backends than its own.

    Parameters
    ----------
    source : path or mapping
        One of the files.
    """

    def __init__(self, source: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with NWBZarrIO(source, "r", load_namespaces=False) as io:
                names, manager, _ = get_cached_namespaces_to_validate(io=io)
        if manager is None:
            manager, names = pynwb.get_manager(), [pynwb.CORE_NAMESPACE]
        self._type_map = manager.type_map
        self._validators = [ValidatorMap(manager.namespace_catalog.get_namespace(name)) for name in names]

    def of(self, source: Any) -> Verdict:
        """Return the verdict on a file."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # links to nothing
            with NWBZarrIO(source, "r", manager=pynwb.BuildManager(self._type_map)) as io:
                builder = io.read_builder()
                try:
                    return of_errors([error for one in self._validators for error in one.validate(builder)])
                except FAILURES as error:
                    return Verdict(None, f"{type(error).__name__}: {error}")
