"""Extensions of NWB that nothing else knows, with one type each, and files that use them."""

from pathlib import Path
from typing import Any

import numpy as np
from hdmf.spec import NamespaceCatalog
from pynwb import get_type_map
from pynwb.spec import NWBAttributeSpec, NWBDatasetSpec, NWBGroupSpec, NWBNamespace, NWBNamespaceBuilder

from hdmf_zarr_backend import NWBZarrIO
from tests import samples
from tests.places import Place


def extension(
    folder: Path, name: str, *, version: str = "0.1.0", doc: str = "a series", knob: str = "knob", dtype: str = "uint8"
) -> str:
    """Write an extension with one type, which is called as the namespace; return the path of the namespace."""
    folder.mkdir(parents=True, exist_ok=True)
    builder = NWBNamespaceBuilder(doc="made up", name=name, version=version, author="nobody", contact="no@where.org")
    builder.include_type("TimeSeries", namespace="core")
    attributes = [NWBAttributeSpec(name=knob, doc="a knob", dtype=dtype)]
    spec = NWBGroupSpec(doc, neurodata_type_def=type_name(name), neurodata_type_inc="TimeSeries", attributes=attributes)
    builder.add_spec(f"{name}.extensions.yaml", spec)
    builder.export(f"{name}.namespace.yaml", outdir=str(folder))
    return str(folder / f"{name}.namespace.yaml")


def type_name(namespace: str) -> str:
    return f"{namespace.removeprefix('ndx-').title()}Series"


def write_with(
    path: Place, *namespaces: str, backend: Any = NWBZarrIO, knob: str = "knob", cache_spec: bool = True
) -> Place:
    type_map = get_type_map()
    nwbfile = samples.plain_nwbfile()
    for namespace in namespaces:
        type_map.load_namespaces(namespace)
        name = Path(namespace).name.removesuffix(".namespace.yaml")
        result = type_map.get_dt_container_cls(type_name(name), name)
        nwbfile.add_acquisition(result(name=name, data=[1.0, 2.0], unit="m", rate=1.0, **{knob: np.uint8(7)}))
    with backend(str(path), "w", extensions=type_map) as io:
        io.write(nwbfile, cache_spec=cache_spec)
    return path


def catalog() -> NamespaceCatalog:
    return NamespaceCatalog(NWBGroupSpec, NWBDatasetSpec, NWBNamespace)
