"""`ZarrIO`: hdmf's I/O interface on Zarr files. It conducts the rooms and decides nothing that a room could decide."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from hdmf.backends.errors import UnsupportedOperation
from hdmf.backends.io import HDMFIO
from hdmf.backends.utils import WriteStatusTracker
from hdmf.build import BuildManager, GroupBuilder, ObjectMapper, TypeMap
from hdmf.spec import NamespaceCatalog

from hdmf_zarr_backend.errors import (
    ModeError,
    NotZarrError,
    StoreExistsError,
    StoreNotFoundError,
    UsageError,
    ZarrBackendError,
)
from hdmf_zarr_backend.mapping import dtypes
from hdmf_zarr_backend.mapping.reserved import NCZARR_ATTR, SPECLOC
from hdmf_zarr_backend.model import consolidated, v2
from hdmf_zarr_backend.model.nodes import adopt, adopt_shapes, copy_hierarchy
from hdmf_zarr_backend.progress import SILENT, Progress
from hdmf_zarr_backend.read.assembler import Assembler
from hdmf_zarr_backend.read.namespaces import load_cached_namespaces
from hdmf_zarr_backend.read.parser import ParsedFile, parse
from hdmf_zarr_backend.read.resolver import FileResolver
from hdmf_zarr_backend.read.spectypes import restore_unsigned
from hdmf_zarr_backend.storage.arrays import LazyArray
from hdmf_zarr_backend.storage.edits import Edits
from hdmf_zarr_backend.storage.jsontext import dump, load
from hdmf_zarr_backend.storage.keys import KeyStore
from hdmf_zarr_backend.storage.stores import local_path, open_keys, open_zarr_group
from hdmf_zarr_backend.write.append import AppendPlanner
from hdmf_zarr_backend.write.dimensions import rename_axes
from hdmf_zarr_backend.write.planner import Planner, PlanOptions
from hdmf_zarr_backend.write.specs import Texts, add_specs, namespace_texts
from hdmf_zarr_backend.write.staging import staged
from hdmf_zarr_backend.write.targets import Targets, object_id
from hdmf_zarr_backend.write.writer import Writer

ROOT_NAME = "root"
EXPANDABLE = ("VectorData", "ElementIdentifiers")

_MODES = ("r", "r-", "r+", "a", "w", "w-", "x")
_NEW = ("w", "w-", "x")
_OBJECT_CODECS = {"JSON": dtypes.JSON2, "MsgPack": dtypes.MSGPACK2, "Pickle": dtypes.PICKLE}


class UnsupportedModeError(ModeError, UnsupportedOperation):  # type: ignore[misc]
    """The operation is not possible in this mode; hdmf's own error for it as well."""


class TargetExistsError(StoreExistsError, UnsupportedOperation):  # type: ignore[misc]
    """Modes ``w-`` and ``x`` make new files only; hdmf's own error for it as well."""


class TargetMissingError(StoreNotFoundError, UnsupportedOperation):  # type: ignore[misc]
    """There is nothing to read; hdmf's own error for it as well."""


class ZarrIO(HDMFIO):  # type: ignore[misc]
    """Reads and writes HDMF containers in Zarr files.

    Parameters
    ----------
    path : str or Path
        The file: a local directory.
    mode : {"r", "r-", "r+", "a", "w", "w-", "x"}
        As of HDF5IO; ``r-`` reads without the consolidated document.
    manager : BuildManager or TypeMap, optional
        Builds and constructs containers; None: one that knows no types.
    object_codec_class : type, optional
        Codec of references and rows: ``numcodecs.JSON`` (default), ``numcodecs.MsgPack``, or ``numcodecs.Pickle``, which
        other programs cannot read safely.
    force_overwrite : bool
        With mode ``w``, replace whatever is there. Without it only an HDMF Zarr file is replaced.
    herd_path : str, optional
        Where the HERD of external resources is.
    storage_options : dict, optional
        For remote stores.
    strict_json : bool
        Write no NaN or Infinity tokens into documents (hdmf-zarr 0.13 cannot read what stands for them).
    synchronizer : object, optional
        Taken for compatibility; zarr 3 has none, and one writer per file is the rule here.

    Raises
    ------
    StoreNotFoundError, NotZarrError, MetadataError
        On opening for reading.
    StoreExistsError
        On opening for writing, before anything is touched.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: str = "r",
        manager: BuildManager | TypeMap | None = None,
        *,
        object_codec_class: type | None = None,
        storage_options: Mapping[str, Any] | None = None,
        force_overwrite: bool = False,
        herd_path: str | None = None,
        strict_json: bool = False,
        synchronizer: Any = None,
    ) -> None:
        if mode not in _MODES:
            raise UsageError(f"the mode {mode!r} is unknown", remedy=f"Use one of {', '.join(_MODES)}.")
        if manager is None:
            manager = BuildManager(TypeMap(NamespaceCatalog()))
        elif isinstance(manager, TypeMap):
            manager = BuildManager(manager)
        if synchronizer:
            warnings.warn("synchronizer is ignored: a file has one writer at a time", UserWarning, stacklevel=2)
        self._mode = mode
        self._object_codec = _object_codec(object_codec_class)
        self._storage_options = dict(storage_options or {})
        self._force_overwrite = force_overwrite
        self._strict_json = strict_json
        self._keys: KeyStore | None = None
        self._parsed: ParsedFile | None = None
        self._assemblers: dict[str, Assembler] = {}
        self._resolvers: dict[str, FileResolver] = {}
        self._written_builders = WriteStatusTracker()
        self._is_open = False
        self._zarr_group: Any = None
        self._edits: Edits | None = None
        super().__init__(manager, source=local_path(path), herd_path=herd_path)
        ObjectMapper.no_convert(LazyArray)

    # ---- state ------------------------------------------------------------------------------------------------------

    @property
    def mode(self) -> str:
        """The mode in which the file was opened."""
        return self._mode

    @property
    def path(self) -> str:
        """Absolute path of the file."""
        return str(self.source)

    @property
    def abspath(self) -> str:
        """Absolute path of the file."""
        return self.path

    @property
    def object_codec_class(self) -> type:
        """The numcodecs class that encodes references and rows."""
        import numcodecs

        names = {config["id"]: name for name, config in _OBJECT_CODECS.items()}
        codec: type = getattr(numcodecs, names[self._object_codec["id"]])
        return codec

    @property
    def _file(self) -> Any:
        """The file as a ``zarr.Group``, made when something asks for it."""
        if self._keys is None:
            return None
        if self._zarr_group is None:
            self._zarr_group = open_zarr_group(self._keys)
        return self._zarr_group

    @property
    def _ZarrIO__file(self) -> Any:  # noqa: N802 - the name that nwbinspector looks for
        return self._file

    def open(self) -> None:
        """Open the file: for reading parse its metadata, for writing make sure that it may be written."""
        if self._is_open:
            return
        keys = open_keys(str(self.source))
        if self._mode == "a" and not keys.exists():
            self._mode = "w-"
        if self._mode in _NEW:
            self._check_target(keys)
        else:
            try:
                self._parsed = parse(keys, use_consolidated=self._mode != "r-")
            except StoreNotFoundError as error:
                raise TargetMissingError(
                    f"Unable to open file in {self._mode!r} mode. File does not exist",
                    store=self.source,
                    remedy="Check the path, or use mode 'w' to make a new file.",
                ) from error
        self._keys = keys
        self._edits = Edits(keys) if self._mode in ("r+", "a") else None
        self._is_open = True

    def _check_target(self, keys: KeyStore) -> None:
        if not keys.exists():
            return
        if self._mode != "w":
            raise TargetExistsError(
                f"Unable to open file in {self._mode!r} mode. File already exists",
                store=self.source,
                remedy="Use mode 'w' to replace it, or 'a' to add to it.",
            )
        if not self._force_overwrite and not is_hdmf_zarr(keys):
            raise StoreExistsError(
                "what is there is no HDMF Zarr file, and is not replaced",
                store=self.source,
                remedy="Choose another path, or pass force_overwrite=True if it may be deleted.",
            )

    def close(self) -> None:
        """Close the file and write what was changed in place. Arrays that were handed out still read."""
        if self._is_open:
            self._is_open = False
            self._flush_edits()

    def is_open(self) -> bool:
        """Tell whether the file is open."""
        return self._is_open

    @staticmethod
    def can_read(path: str | os.PathLike[str]) -> bool:
        """Tell whether there is a Zarr group at ``path`` that this class reads; any error is a no."""
        try:
            parse(open_keys(local_path(path)))
        except (ZarrBackendError, OSError):
            return False
        return True

    # ---- reading ----------------------------------------------------------------------------------------------------

    def read(self, **kwargs: Any) -> Any:
        """Return the root container.

        Raises
        ------
        UnsupportedModeError
            The file is open for writing a new one.
        NotZarrError
            The file holds no container.
        """
        if self._mode in _NEW:
            raise UnsupportedModeError(
                f"Cannot read from file in mode {self._mode!r}",
                store=self.source,
                remedy="Use mode 'r', 'r-', 'r+' or 'a'.",
            )
        builder = self.read_builder()
        if not (builder.groups or builder.datasets or builder.links or builder.attributes):
            raise NotZarrError(
                "Cannot build data. There are no values", store=self.source, remedy="Is this the right file?"
            )
        return super().read(**kwargs)

    def read_builder(self) -> Any:
        """Return the builder of the root, always the same object.

        Raises
        ------
        UnsupportedModeError
            The file is closed.
        """
        if not self._is_open:
            raise UnsupportedModeError("Cannot read data from a closed file", store=self.source, remedy="Open it again.")
        assembler = self._own_assembler()
        known = "" in assembler.builders
        root = assembler.root()
        if not known:
            self._mark_written(root)
            self._restore_types(assembler)
        return root

    def _restore_types(self, assembler: Assembler) -> None:
        """Ask the schema for the unsigned attributes that a file of another writer has no types for."""
        catalog = self.manager.namespace_catalog
        for path, builder in assembler.builders.items():
            node = assembler.hierarchy.get(path)
            if node is not None and NCZARR_ATTR not in node.attributes:
                restore_unsigned(builder, catalog)

    def _mark_written(self, builder: Any) -> None:
        """Mark all builders of this file as being on disk."""
        stack = [builder]
        while stack:
            here = stack.pop()
            self._written_builders.set_written(here)
            if isinstance(here, GroupBuilder):
                for members in (here.groups, here.datasets, here.links):
                    stack.extend(child for child in members.values() if child is not None)

    def _own_assembler(self) -> Assembler:
        if self._parsed is None or self._keys is None:
            raise UnsupportedModeError("there is nothing to read yet", store=self.source, remedy="Write it first.")
        return self._assembler(str(self.source), self._keys, self._parsed)

    def _assembler(self, location: str, keys: KeyStore, parsed: ParsedFile) -> Assembler:
        found = self._assemblers.get(location)
        if found is None:
            resolver = FileResolver(lambda: self._assemblers[location], self.manager)
            edits = self._edits if location == str(self.source) else None
            found = Assembler(keys, parsed.hierarchy, location, resolver, self._open_other, edits=edits)
            self._assemblers[location] = found
            self._resolvers[location] = resolver
        return found

    def _open_other(self, location: str) -> Assembler:
        """Return the assembler of a linked file; read-only, and opened once."""
        if location in self._assemblers:
            return self._assemblers[location]
        keys = open_keys(location)
        return self._assembler(location, keys, parse(keys))

    def get_builder(self, zarr_obj: Any) -> Any:
        """Return the builder of a group or array of this file, or of one that it links to.

        Raises
        ------
        ReferenceTargetError
            There is none at its path.
        """
        location = zarr_obj.location if isinstance(zarr_obj, LazyArray) else str(self.source)
        assembler = self._assemblers.get(location) or self._own_assembler()
        assembler.root()
        return assembler.builder_at(zarr_obj.path)

    def get_container(self, zarr_obj: Any) -> Any:
        """Return the container of a group or array."""
        return self.manager.construct(self.get_builder(zarr_obj))

    # ---- namespaces -------------------------------------------------------------------------------------------------

    @classmethod
    def load_namespaces(
        cls,
        namespace_catalog: NamespaceCatalog | TypeMap,
        path: str | Path | None = None,
        namespaces: list[str] | None = None,
        file: Any = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Load the newest version of each namespace that is cached in a file.

        Parameters
        ----------
        namespace_catalog : NamespaceCatalog or TypeMap
            Where to.
        path : str or Path, optional
            The file.
        namespaces : list of str, optional
            Only these.
        file : zarr.Group, optional
            The open file, instead of ``path``.

        Returns
        -------
        dict
            ``{namespace: {dependency: types}}``, empty (with a warning) where no namespace is cached.
        """
        if path is None:
            if file is None:
                raise UsageError("neither path nor file is given", remedy="Pass path=.")
            path = str(file.store_path.store.root)
        keys = open_keys(local_path(path))
        return load_cached_namespaces(namespace_catalog, keys, parse(keys).hierarchy, namespaces)

    def load_namespaces_io(
        self, namespace_catalog: NamespaceCatalog | TypeMap, namespaces: list[str] | None = None
    ) -> dict[str, Any]:
        """Load the newest version of each namespace that is cached in this file."""
        if not self._is_open or self._keys is None or self._parsed is None:
            raise UnsupportedModeError("Cannot load namespaces from a closed file", store=self.source)
        return load_cached_namespaces(namespace_catalog, self._keys, self._parsed.hierarchy, namespaces)

    # ---- writing ----------------------------------------------------------------------------------------------------

    def write(self, container: Any, herd: Any = None, *, cache_spec: bool = True, **options: Any) -> None:
        """Write a container and all that is in it.

        Parameters
        ----------
        container : Container
            The root.
        herd : HERD, optional
            Written to ``herd_path``.
        cache_spec : bool
            Cache the namespaces in the file.
        **options
            As of `write_builder`.

        Raises
        ------
        UnsupportedModeError
            The file is open for reading.
        WriteError
            Something cannot be stored; nothing was written.
        """
        if self._mode in ("r", "r-"):
            raise UnsupportedModeError(
                f"Cannot write to file in mode {self._mode!r}", store=self.source, remedy="Use 'r+', 'w', 'w-', 'x' or 'a'."
            )
        super().write(container=container, herd=herd, cache_spec=cache_spec, **options)

    def write_builder(
        self,
        builder: Any,
        *,
        link_data: bool = True,
        exhaust_dci: bool = True,
        export_source: str | None = None,
        consolidate_metadata: bool = True,
        cache_spec: bool = False,
        spec_catalogs: Collection[NamespaceCatalog] | None = None,
        expandable: Collection[str] = EXPANDABLE,
        progress: Progress = SILENT,
        number_of_jobs: int = 1,
        max_threads_per_process: int | None = None,
        multiprocessing_context: str | None = None,
    ) -> None:
        """Write a builder and all that is below it.

        Parameters
        ----------
        builder : GroupBuilder
            The root.
        link_data : bool
            Link to stored arrays of other files that are given as data; False: copy them.
        exhaust_dci : bool
            Exhaust data chunk iterators one after the other; False: a block of each in turn.
        export_source : str, optional
            The file that is being exported.
        consolidate_metadata : bool
            Write the consolidated document.
        cache_spec : bool
            Cache the namespaces of ``spec_catalogs`` (default: the manager's) in the file.
        expandable : collection of str
            Data types whose datasets may grow as far as the schema allows.
        progress : Progress
            Is told of the bytes written.
        number_of_jobs, max_threads_per_process, multiprocessing_context
            Taken for compatibility; the work is done in this thread.
        """
        options = PlanOptions(
            location=str(self.source),
            link_data=link_data,
            export_location=export_source,
            object_codec=self._object_codec,
            max_shape=lambda child: self._max_shape(child, expandable),
            strict_json=self._strict_json,
        )
        targets = Targets(str(self.source), export_source, self.manager, object_id(builder))
        catalogs = [self.manager.namespace_catalog] if spec_catalogs is None else spec_catalogs
        texts = namespace_texts(catalogs) if cache_spec else {}
        if self._parsed is None:
            self._write_new(
                builder, options, targets, texts, progress, consolidate=consolidate_metadata, in_turn=exhaust_dci
            )
        else:
            self._append(builder, options, targets, texts, progress, consolidate=consolidate_metadata)
        self._mark_written(builder)

    def _write_new(
        self,
        builder: Any,
        options: PlanOptions,
        targets: Targets,
        texts: Texts,
        progress: Progress,
        *,
        consolidate: bool,
        in_turn: bool,
    ) -> None:
        plan = Planner(options, targets).plan_root(builder)
        add_specs(plan, texts, location=options.location)
        with staged(options.location) as keys:
            writer = Writer(keys, plan, strict_json=self._strict_json, progress=progress)
            writer.write(consolidate=consolidate, exhaust_in_turn=in_turn)
        self._parsed = ParsedFile(plan.hierarchy, consolidated=consolidate)

    def _append(
        self, builder: Any, options: PlanOptions, targets: Targets, texts: Texts, progress: Progress, *, consolidate: bool
    ) -> None:
        """Write the difference between the file and ``builder``."""
        assert self._keys is not None and self._parsed is not None
        builders = self._own_assembler().builders
        hierarchy = copy_hierarchy(self._parsed.hierarchy)  # what is known of the file stays true if the write fails
        planner = AppendPlanner(
            options, targets, hierarchy, is_written=self.get_written, original=lambda path: builders.get(path)
        )
        plan = planner.plan_root(builder)
        planner.note_specs(add_specs(plan, texts, location=options.location))
        self._flush_edits(targets.encode)
        adopt_shapes(hierarchy, self._parsed.hierarchy)
        if planner.changed or planner.added or not self._parsed.consolidated:
            writer = Writer(self._keys, plan, strict_json=self._strict_json, progress=progress)
            writer.write_changes(added=planner.added, changed=planner.changed, consolidate=consolidate)
        adopt(self._parsed.hierarchy, hierarchy)
        self._parsed.consolidated = consolidate
        self._own_assembler().adopt(builder)

    def _flush_edits(self, encode: Callable[[Any], Any] | None = None) -> None:
        """Write the changes that were made to arrays directly, and make the consolidated document true again."""
        if self._edits is None or not self._edits.pending or self._keys is None or self._parsed is None:
            return
        rename_axes(self._parsed.hierarchy, self._edits.changed)
        self._edits.flush(encode)
        if self._parsed.consolidated:
            self._keys.set(v2.CONSOLIDATED, dump(consolidated.consolidate(self._parsed.hierarchy), strict=self._strict_json))

    def _max_shape(self, builder: Any, expandable: Collection[str]) -> tuple[int | None, ...] | None:
        """Return the shape that the schema allows, for the types whose datasets users append to (HDF5IO's rule)."""
        shape = builder.matched_spec_shape
        if shape is None or not expandable or self.manager.get_builder_dt(builder) is None:
            return None
        if not any(self.manager.is_sub_data_type(builder, name) for name in expandable):
            return None
        return tuple(shape)

    def export(
        self,
        src_io: HDMFIO,
        container: Any = None,
        write_args: dict[str, Any] | None = None,
        clear_cache: bool = False,  # noqa: FBT001, FBT002 - hdmf's signature
        cache_spec: bool = True,  # noqa: FBT001, FBT002 - hdmf's signature
        **options: Any,
    ) -> None:
        """Write what ``src_io`` has read, from any backend, to this file.

        Parameters
        ----------
        src_io : HDMFIO
            The source; stays as it is.
        container : Container, optional
            The root that ``src_io`` has read, changed perhaps; None: everything that is in the source.
        write_args : dict, optional
            Arguments of `write_builder`; ``{"link_data": False}`` copies what would be linked.
        clear_cache : bool
            Build all containers anew.
        cache_spec : bool
            Cache the namespaces of the source.
        **options
            Arguments of `write_builder` as well.

        Raises
        ------
        UnsupportedModeError
            The mode is not ``w``, ``w-`` or ``x``.
        StoreExistsError
            This file is the source.
        """
        if self._mode not in _NEW:
            raise UnsupportedModeError(
                f"Cannot export to file in mode {self._mode!r}", store=self.source, remedy="Use mode 'w'."
            )
        source = None if src_io.source is None else os.path.abspath(str(src_io.source))
        if source is not None and os.path.realpath(source) == os.path.realpath(str(self.source)):
            raise StoreExistsError(
                "a file cannot be exported onto itself", store=self.source, remedy="Export to another path."
            )
        arguments = {**(write_args or {}), **options, "export_source": source, "cache_spec": cache_spec}
        if cache_spec and src_io.manager is not None:
            arguments["spec_catalogs"] = [src_io.manager.namespace_catalog, self.manager.namespace_catalog]
        super().export(
            src_io=src_io,
            container=container,
            write_args=arguments,
            clear_cache=clear_cache or not arguments.get("link_data", True),
        )

    @classmethod
    def export_io(cls, path: str | os.PathLike[str], src_io: HDMFIO, **kwargs: Any) -> None:
        """Export ``src_io`` to a new file at ``path``; arguments as of `export`."""
        with cls(path, mode="w") as io:
            io.export(src_io=src_io, **kwargs)

    def get_written(self, builder: Any) -> bool:
        """Tell whether this builder was read from or written to this file."""
        return bool(self._written_builders.get_written(builder))


def _object_codec(codec_class: type | None) -> dict[str, Any]:
    if codec_class is None:
        return dict(dtypes.JSON2)
    name = codec_class.__name__
    if name not in _OBJECT_CODECS:
        raise UsageError(
            f"object_codec_class {codec_class!r} is not supported",
            remedy="Use numcodecs.JSON, numcodecs.MsgPack or numcodecs.Pickle.",
        )
    if name == "Pickle":
        warnings.warn(
            "Pickled references can only be read by Python programs that are willing to run code from the file, or that "
            "have a reader like ours; use numcodecs.JSON unless something needs the pickles.",
            UserWarning,
            stacklevel=3,
        )
    return dict(_OBJECT_CODECS[name])


def is_hdmf_zarr(keys: KeyStore) -> bool:
    """Tell whether the file is an HDMF Zarr file: its root says ``.specloc`` or ``namespace``, whoever wrote it."""
    text = keys.get(v2.ATTRIBUTES) or keys.get("zarr.json")
    if text is None:
        return False
    try:
        document = load(text, key=v2.ATTRIBUTES)
    except ZarrBackendError:
        return False
    if isinstance(document, dict) and "node_type" in document:
        document = document.get("attributes")
    return isinstance(document, dict) and (SPECLOC in document or "namespace" in document)
