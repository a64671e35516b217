"""The engines and the interpreters that they run in."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.peers import RECIPES, Peer, PeerUnavailableError, obtain_peer

OURS, OURS_3, BASE, PEER_3 = "ours", "ours format 3", "hdmf-zarr 0.13", "hdmf-zarr 0.14"

_VERSIONS = """
import json, sys
from importlib.metadata import PackageNotFoundError, version
found = {"Python": sys.version.split()[0]}
for name in sys.argv[1:]:
    try:
        found[name] = version(name)
    except PackageNotFoundError:
        pass
print(json.dumps(found))
"""
_PACKAGES = ("hdmf-zarr-backend", "hdmf-zarr", "hdmf", "pynwb", "zarr", "numcodecs", "h5py", "numpy")


@dataclass(frozen=True)
class Engine:
    """What does the work.

    Parameters
    ----------
    name : str
        As in the workloads.
    interpreter : Peer
        Where it runs.
    environment : mapping
        Variables that are set for it alone.
    """

    name: str
    interpreter: Peer
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_peer(self) -> bool:
        """Tell whether it is a release of hdmf-zarr."""
        return self.name.startswith("hdmf-zarr ")

    def versions(self) -> dict[str, str]:
        """Return the versions of Python and of the packages that decide."""
        found: dict[str, str] = self.interpreter.run(_VERSIONS, *_PACKAGES)
        return found


_HERE = Peer("here", Path(sys.executable))
#: hdmf-zarr 0.13 refuses to read the references that it writes unless this is set.
_PICKLES = {"NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE": "1"}

_READERS = ("zarr-python", "TensorStore", "TensorStore + cache")
LOCAL = tuple(Engine(name, _HERE) for name in (OURS, OURS_3, "HDF5", "hdmf", "files", *_READERS))
NAMES = (OURS, OURS_3, BASE, PEER_3, "HDF5", "hdmf", "files", *_READERS)

#: What hdmf-zarr needs to read from servers, in environments apart from those of the tests.
_FAR = {
    "http": ("fsspec==2026.9.0", "aiohttp==3.14.5"),
    "s3": ("s3fs==2026.9.0", "fsspec==2026.9.0", "aiohttp==3.14.5"),
}


def find_engines(names: tuple[str, ...]) -> tuple[list[Engine], dict[str, str]]:
    """Return the engines of these names, and why others are missing: ``{name: reason}``."""
    found, missing = [], {}
    local = {engine.name: engine for engine in LOCAL}
    for name in names:
        if name in local:
            found.append(local[name])
            continue
        release = name.split()[-1]
        try:
            peer = obtain_peer(RECIPES[release])
        except PeerUnavailableError as error:
            missing[name] = str(error)
        else:
            found.append(Engine(name, peer, _PICKLES if release == "0.13" else {}))
    return found, missing


def with_protocol(engine: Engine, protocol: str) -> Engine:
    """Return the same engine in an environment that can also read by a protocol, ``"http"`` or ``"s3"``.

    Raises
    ------
    PeerUnavailableError
        The environment cannot be made.
    """
    if not engine.is_peer:
        return engine
    recipe = RECIPES[engine.name.split()[-1]]
    recipe = replace(
        recipe,
        release=f"{recipe.release}-{protocol}",
        variable=f"{recipe.variable}_{protocol.upper()}",
        requirements=(*recipe.requirements, *_FAR[protocol]),
    )
    return replace(engine, interpreter=obtain_peer(recipe))
