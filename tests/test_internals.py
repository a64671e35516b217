"""The names of hdmf and pynwb that are not public: the installed releases have those that this package needs."""

import ast
import re
from importlib import metadata
from inspect import getsource
from pathlib import Path

import hdmf.build
import hdmf.container
import numpy as np
import pytest
from hdmf.backends.io import HDMFIO
from hdmf.build import DatasetBuilder, GroupBuilder
from hdmf.common import DynamicTable, SimpleMultiContainer, VectorData, VectorIndex, get_manager
from hdmf.container import Container
from hdmf.data_utils import DataChunkIterator

import hdmf_zarr_backend
from hdmf_zarr_backend.hdmf import internals

pynwb = pytest.importorskip("pynwb")

SOURCE = Path(hdmf_zarr_backend.__file__).parent
OWN = {"_ZarrIO__file", "_ZarrIO__mode"}
"""Names that hdmf-zarr's class has, and so that of this package."""


def mapper_of(cls):
    return pynwb.get_type_map().get_map(cls(name="some"))


def has_children():
    parent, child = Container("parent"), Container("child")
    child.parent = parent
    kept = internals.children_of(parent)
    internals.set_children(parent, [])
    return kept == [child] and parent.children == ()


def has_fields():
    container, fields = Container("some"), {"some": "value"}
    internals.set_fields(container, fields)
    return container.fields is fields


def has_source():
    container = Container("some")
    container.container_source = "a file"
    internals.forget_source(container)
    return container.container_source is None


def has_source_of_io():
    class PlainIO(HDMFIO):
        pass

    PlainIO.__abstractmethods__, PlainIO.open = frozenset(), lambda self: None
    io = PlainIO(None, source="a file")
    internals.set_source(io, "gs://a/file")
    return io.source == "gs://a/file"


def has_type_of_dataset():
    builder = DatasetBuilder("some", data=[1], dtype="int8")
    internals.set_dtype(builder, "int16")
    return builder.dtype == "int16"


def has_containers():
    manager, table = get_manager(), DynamicTable(name="some", description="")
    return internals.container_made_of(manager, manager.build(table, source="a file")) is table


def has_indices():
    index = VectorIndex(name="some_index", data=[200], target=VectorData(name="some", description="", data=[0] * 200))
    internals.accept_any_index(index)
    index.add_vector([0] * 200)
    return index.data[-1] == 400 and type(index.data[-1]) is np.uint64 and type(index.data[0]) is np.uint8


def has_new_container():
    manager = get_manager()
    builder = GroupBuilder("some", attributes={"data_type": "Container", "namespace": "hdmf-common"}, source="a file")
    mapper = manager.type_map.get_map(builder)
    arguments = internals.constructor_arguments(mapper, builder, manager.type_map, Container)
    container = internals.new_container(mapper, Container, builder, None, arguments)
    return arguments == {"name": "some"} and container.name == "some" and container.container_source == "a file"


def has_proxy():
    parent, child = Container("parent"), Container("child")
    child.parent = parent
    internals.set_parents(child, parent)
    return "resolve" in vars(hdmf.build.manager.Proxy) and child.parent is parent


def has_parent():
    parent, child = Container("parent"), Container("child")
    child.parent = hdmf.build.manager.Proxy(get_manager(), "a file", "elsewhere/child", "hdmf-common", "Container")
    internals.set_parents(child, parent)
    return child.parent is parent and parent.children == (child,)


def is_open(cls, mapper=None):
    return internals.can_wait_for_members(cls, mapper or mapper_of(SimpleMultiContainer))


def has_mapper_of_files():
    core = {"neurodata_type": "NWBFile", "namespace": "core"}
    mapper = pynwb.get_type_map().get_map(GroupBuilder("root", attributes=core))
    new_types = re.findall(r"attributes\[.neurodata_type.\] = .(\w+)", getsource(type(mapper)))
    return is_open(pynwb.NWBFile, mapper) and {*new_types} == {"ElectrodesTable", "FrequencyBandsTable"}


CHECKS = {
    "hdmf.backends.io.HDMFIO.__source": has_source_of_io,
    "hdmf.build.BuildManager.__containers": has_containers,
    "hdmf.build.DatasetBuilder.__dtype": has_type_of_dataset,
    "hdmf.build.ObjectMapper.__new_container__": has_new_container,
    "hdmf.build.manager.Proxy.resolve": has_proxy,
    "hdmf.common.VectorIndex.__maxval": has_indices,
    "hdmf.common.VectorIndex.__uint": has_indices,
    "hdmf.container.AbstractContainer.__children": has_children,
    "hdmf.container.AbstractContainer.__container_source": has_source,
    "hdmf.container.AbstractContainer.__field_values": has_fields,
    "hdmf.container.AbstractContainer.__parent": has_parent,
    "hdmf.container.AbstractContainer._getter": lambda: internals.is_read_from_fields(pynwb.NWBFile, "subject"),
    "hdmf.container.MultiContainerInterface.__clsconf__": lambda: (
        internals.collections_of(SimpleMultiContainer) == {"containers"}
    ),
    "hdmf.container.MultiContainerInterface.__init__": lambda: is_open(pynwb.ecephys.LFP) and not is_open(DynamicTable),
    "hdmf.data_utils.DataChunkIterator.__next_chunk": lambda: (
        internals.chunk_read_ahead(DataChunkIterator(data=[7])).data is not None
    ),
    "pynwb.NWBFile.__init__": lambda: is_open(pynwb.NWBFile),
    "pynwb.ProcessingModule.__init__": lambda: is_open(pynwb.ProcessingModule),
    "pynwb.io.file.NWBFileMap.construct": has_mapper_of_files,
}
"""For each name, whether what it is needed for works."""


def check(name, reason, works):
    """Fail if the installed release lacks a name, or has another thing under it."""
    library = name.partition(".")[0]
    problem = f"{library} {metadata.version(library)} has no {name}, needed for {reason}"
    try:
        assert works(), problem
    except (AttributeError, TypeError, ImportError) as error:
        raise AssertionError(problem) from error


@pytest.mark.parametrize("name", sorted({*internals.INTERNALS, *CHECKS}))
def test_the_installed_release_has_each_name_that_is_not_public(name):
    check(name, internals.INTERNALS[name], CHECKS[name])


def test_the_error_names_the_release_the_name_and_what_it_is_needed_for():
    with pytest.raises(AssertionError, match=r"^hdmf \d+\.\d+\.\d+ has no hdmf\.build\.X, needed for a test"):
        check("hdmf.build.X", "a test", lambda: hdmf.build.X)


def test_no_other_module_uses_a_private_name_of_hdmf():
    """Python mangles most of them; so no reader finds them by the name of their class."""
    result = {}
    for path in sorted(SOURCE.rglob("*.py")):
        names = re.findall(
            r"\b_[A-Z][A-Za-z]+__[a-z]\w*|\b__(?:new_container|clsconf)__", path.read_text(encoding="utf-8")
        )
        if {*names} - OWN:
            result[path.relative_to(SOURCE).as_posix()] = {*names} - OWN
    assert result.keys() == {"hdmf/internals.py"}


def test_only_that_module_imports_what_hdmf_does_not_export():
    exported = {"hdmf.build.manager": (), "hdmf.spec.spec": ("BaseStorageSpec",)}
    for path in sorted(SOURCE.rglob("*.py")):
        if path.name == "internals.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module in exported:
                assert {each.name for each in node.names} <= {*exported[node.module]}, path
