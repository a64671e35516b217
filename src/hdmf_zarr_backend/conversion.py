"""`convert`: HDF5 to Zarr and back, and Zarr to Zarr of any format.

What Zarr cannot express is kept in the notes of the file, so HDF5 -> Zarr -> HDF5 gives the same file again.

Source: docs/format, "What an object was in HDF5", "HDF5 types".
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hdmf_zarr_backend import errors
from hdmf_zarr_backend.check.contents import lost_chunks, without_target
from hdmf_zarr_backend.encoding import registry
from hdmf_zarr_backend.encoding.attributes import strict_attributes
from hdmf_zarr_backend.encoding.chunk_codec import value_bytes
from hdmf_zarr_backend.encoding.codecs import CodecOfFile, codec_of_file
from hdmf_zarr_backend.encoding.elements import describe, is_scalar
from hdmf_zarr_backend.encoding.layout import Layout, NoMatchError, Sharding
from hdmf_zarr_backend.encoding.nczarr import check_format
from hdmf_zarr_backend.encoding.parser import Resolver, check_outside, not_found, parse
from hdmf_zarr_backend.encoding.references import LinkedFile
from hdmf_zarr_backend.encoding.registry import BOTH, ZarrFormat
from hdmf_zarr_backend.encoding.reserved import LINKS, SPECLOC, notes_of, spec_location
from hdmf_zarr_backend.encoding.zarr3 import check_key_encoding
from hdmf_zarr_backend.errors import at, known_arguments, printable, unknown_argument, warn, without_secrets
from hdmf_zarr_backend.from_hdf5 import Hdf5Planner, check_zarr, schema_of
from hdmf_zarr_backend.hdf5.files import warn_broken
from hdmf_zarr_backend.hdf5.tree import Hdf5Tree
from hdmf_zarr_backend.hdmf.namespaces import link_names, name_axes
from hdmf_zarr_backend.model.json_text import dump
from hdmf_zarr_backend.model.links import HDF5_SUFFIXES, ZARR_SUFFIXES, ends_with, is_url, split_location
from hdmf_zarr_backend.model.nodes import Dataset, Group, Hierarchy, absolute, gc_paused, relative
from hdmf_zarr_backend.model.render import PLAIN, Form, View, counted, few, size_text
from hdmf_zarr_backend.options import CODECS, Limits, ReadOptions, WriteOptions, named_format
from hdmf_zarr_backend.progress import reporting
from hdmf_zarr_backend.store import opening
from hdmf_zarr_backend.store.base import Abilities, Store
from hdmf_zarr_backend.store.clouds import open_folder
from hdmf_zarr_backend.store.files import RECORD, Resumption, may_resume
from hdmf_zarr_backend.store.journal import warn_of_pending
from hdmf_zarr_backend.store.local import LocalStore
from hdmf_zarr_backend.store.opening import FileSource
from hdmf_zarr_backend.store.transaction import Writer, new_local_file, put_file
from hdmf_zarr_backend.virtual import references
from hdmf_zarr_backend.write import plan as planning
from hdmf_zarr_backend.write.plan import ShardsOfFile, WritePlan
from hdmf_zarr_backend.write.tasks import opened
from hdmf_zarr_backend.write.writer import new_file

if TYPE_CHECKING:
    from hdmf_zarr_backend.hdmf.dataio import ZarrDataIO

Format: TypeAlias = Literal["zarr", "hdf5"]

# Which options have an effect for which source and target (None: any); the others are refused, since an option that is
# silently ignored looks like one that works.
_NAMES: dict[Format, str] = {"zarr": "Zarr", "hdf5": "HDF5"}
_OF_WRITES = frozenset({"consolidate_metadata", "doc"})
_OF_VIRTUAL = frozenset({"durable", "executor", "external_links", "memory_budget", "progress"})
_MEANT_FOR: dict[str, tuple[Format | None, Format | None]] = {
    "codec": ("hdf5", "zarr"), "chunks": ("hdf5", "zarr"), "resume": ("hdf5", "zarr"),
    "strict_json": ("hdf5", "zarr"), "nczarr": (None, "zarr"),
    "chunk_key_encoding": (None, "zarr"), "shards": (None, "zarr"),
    "link_data": ("zarr", "hdf5"), "missing_chunks": ("zarr", None),
}  # fmt: skip
_COPY_LINKED = ' From Zarr to Zarr, io.export(source, write_args={"link_data": False}) copies linked data.'
# on the command line, where the name differs
_OPTIONS = {"link_data": "--no-link-data", "settings": "--set", "limits": "--no-plug-in-codecs"}
_TO_ZARR = "For Zarr, use a target whose name ends in '.zarr' or '.zip',"
_COPY = "Copy or download an HDF5 file with other tools."
# remarks of a report
_CHOSEN = "settings apply to {}"
_NO_SHARDS = "no array has shards: auto is for 64 MiB and more, lengths for as many axes and several chunks"
_JOINED = "small chunks of {} were joined, which chunks='keep' (--chunks keep) prevents"
_NO_FILL = "a copy in HDF5 will not have the fill value of {}, which is of a type for which h5py can write none"

Setting: TypeAlias = "Mapping[str, Any] | ZarrDataIO"
Settings: TypeAlias = Mapping[str, Setting] | Sequence[tuple[str, Setting]]
"""How some datasets are stored: options by the pattern of their paths."""


@dataclass(slots=True, frozen=True, repr=False)
class ConversionReport(View):
    """The result of a conversion.

    Attributes
    ----------
    source, target : str
        Absolute paths.
    format : {"zarr", "hdf5"}
        Format of the target.
    groups, datasets, links : int
        Counts in the target, without the cached specifications, as `zarrio inspect` counts them.
    nbytes : int
        Total bytes of all values, uncompressed (8 for each text or reference).
    remarks : tuple of str
        What differs from the source on purpose, such as small chunks that were joined.
    """

    source: str
    target: str
    format: Format
    groups: int
    datasets: int
    links: int
    nbytes: int
    remarks: tuple[str, ...] = ()

    def lines(self, form: Form = PLAIN, name: str | None = None) -> list[str]:
        """Return what the command prints in a ``form``, of a file ``name``: the numbers, and the remarks."""
        counts = ((self.groups, "group"), (self.datasets, "dataset"), (self.links, "link"))
        numbers = ", ".join([*(counted(count, noun) for count, noun in counts), size_text(self.nbytes)])
        first = f"{name or f'{self.source} -> {self.target}'}: {numbers}"
        return [printable(without_secrets(first)), *(printable(f"  {remark}") for remark in self.remarks)]


@known_arguments
def convert(
    source: FileSource,
    target: FileSource,
    *,
    to: Format | Literal["virtual"] | None = None,
    overwrite: bool = False,
    check: bool = True,
    zarr_format: ZarrFormat | None = None,
    storage_options: Mapping[str, Any] | None = None,
    link_data: bool = True,
    codec: CodecOfFile = "keep",
    chunks: Literal["keep"] | None = None,
    shards: ShardsOfFile = None,
    settings: Settings | None = None,
    resume: bool = False,
    read_options: ReadOptions | None = None,
    write_options: WriteOptions | None = None,
) -> ConversionReport:
    """Convert an HDF5 file to Zarr, a Zarr file to HDF5, or a Zarr file to Zarr: the same or the other format, or both.

    Parameters
    ----------
    source : str, Path, UPath, OpenFile, mapping, zarr.abc.store.Store, StorePath, zarr.Group or icechunk.Session
        An HDF5 file (recognised by its signature), here or at a URL, or a Zarr file of format 2 or 3 written by any
        release of hdmf-zarr: a directory, a zip file, a file of references, a URL or a store.
    target : str, Path, UPath, OpenFile, mapping, zarr.abc.store.Store, StorePath, zarr.Group or icechunk.Session
        The new file. A Zarr file may be a URL or a store, or end in ``.zip``. A local file is written beside the target
        and renamed when it is complete. An existing file stays until then, and a conversion that fails leaves nothing.
    to : {"zarr", "hdf5", "virtual"}, optional
        Format of the target. None: Zarr if its name ends in ``.zarr`` or ``.zip``, or if it is a folder and the
        source is HDF5; else HDF5. "virtual": a single JSON file ``NAME.nwb.zarr.json``, in which the chunks of large
        plain datasets are references into the HDF5 file, local or at a URL, which must not change afterwards.
    overwrite : bool
        Replace an existing target. False: refuse it; an empty folder may be used for a Zarr file. A symbolic link is
        followed: its target is replaced, and the link stays.
    check : bool
        Refuse an NWB file that pynwb cannot read, before anything is written. Without pynwb only the NWB version is
        checked. In files of hdmf-zarr, which do not store them, it also restores the types of unsigned attributes.
    zarr_format : {2, 3, "both"}, optional
        Format of a Zarr target. "both": it has the metadata of both formats over the same chunks. None: 3 with
        ``shards``, 2 with ``nczarr``; else that in the environment variable ``HDMF_ZARR_BACKEND_FORMAT``; else the
        format of a Zarr source, for an HDF5 file 2; or the only format that a store can hold (Icechunk: 3).
    storage_options : mapping, optional
        Options of the source and the target if they are URLs, with the names of fsspec or obstore.
    link_data : bool
        Zarr to HDF5 only. A link that was an external link in HDF5, or that points to another Zarr file such as
        ``../b.nwb.zarr``, becomes an external link to the HDF5 file, or to the HDF5 file of the same stem (``b.nwb``,
        beside the target or beside the Zarr file), if that file exists and has the target of the link. Changes that
        were made to the copy in the Zarr file since its conversion are then not in the new file. If no such file
        exists, or if this is False, the target of the link is copied: to the path that it has in its own file, if the
        schema allows nothing but a link to it.
    codec : str, codec of numcodecs or zarr, dict or bool
        HDF5 to Zarr only. ``"keep"``: each dataset keeps its codecs and their levels if Zarr has its filters, and
        equal chunks are copied without decoding. ``"blosc"`` (or True, the default codec), ``"zstd"``, ``"zlib"``,
        ``"none"`` (or False), a codec or its configuration: all chunks are encoded again with this codec, without
        filters, which TensorStore can read.
    chunks : "keep", optional
        HDF5 to Zarr only. ``"keep"``: each dataset keeps the shape of its chunks. None: chunks of less than 64 KiB are
        joined along the first axis, and a dataset of up to 1 MiB becomes one chunk; the report lists them.
    shards : "auto", tuple of int or None
        To Zarr format 3 only. Store several chunks in one object, a shard. "auto": the shard shape of large arrays is
        chosen by bytes. A shape: for arrays with that number of axes and more than one chunk, rounded up to complete
        chunks. None: each chunk is an object, except in arrays that a source of format 3 has in shards. Chunks that are
        copied are put into shards without decoding.
    settings : dict, optional
        How some datasets are stored: ``{pattern: options}``. A pattern is a path: ``*`` and ``?`` stand for letters of
        a name, ``**`` for any number of groups. The options are a dict of arguments of `ZarrDataIO`, or a `ZarrDataIO`
        without data: ``chunks``, ``chunk_elements``, ``chunk_aspect_ratio``, ``compressor`` (or ``codec``),
        ``filters``, and to Zarr format 3 ``shards``. Where several patterns match a dataset, later ones override
        earlier ones option by option. Scalars and cached specifications are not matched. What is not set is copied.
    resume : bool
        HDF5 to Zarr in a local folder or a bucket only. Continue an interrupted or killed conversion to the same
        target: complete chunks are not written again. If there is none, start a new one. False: always start a new one.
    read_options : ReadOptions, optional
        How the source is read: limits (for an HDF5 file, how many values that were never stored may be written), what a
        chunk of a Zarr file that is not stored becomes, and which other files may be read.
    write_options : WriteOptions, optional
        How the target is written, in threads by default: executor, memory, progress, durability, form of the metadata.

    Returns
    -------
    ConversionReport
        The contents of the target.

    Raises
    ------
    StoreNotFoundError, NotZarrError
        The source does not exist, or is neither HDF5 nor Zarr.
    StoreExistsError
        The target exists and ``overwrite`` is False; or it is the source, contains it or is inside it; or it is a
        symbolic link without a target.
    UnsupportedFileError
        pynwb cannot read the NWB file, or HDF5 cannot open it.
    UsageError
        Both files would be HDF5; an option has no effect for these two, or an invalid value; or a pattern in
        ``settings`` matches no dataset, or its options do not fit one.
    DamagedFileError
        Part of the source cannot be read; the node is named. Damage in a chunk that is copied without decoding is
        reported only when the chunk is read.
    WorkerLostError
        A worker or the cluster died. Nothing is at the target, and the conversion can be resumed.
    ConflictError
        ``resume`` is True, and the source, the codec or the version of this package has changed. Nothing is changed.
    StoreLockedError
        Another writer is making the same target, or has it open.
    StoreError
        The target cannot be written: disk full, no permission, no answer.
    LimitError
        The source exceeds ``limits``. Nothing is written.
    WriteError
        The format of the target cannot express something: sequences of variable length, a name with a backslash.

    Notes
    -----
    HDF5 to Zarr: the target of an external link is copied to the place of the link, since a Zarr file cannot refer
    into HDF5; if the other file is missing, the link is kept with a warning. Further hard links of an object become
    soft links. Data in external raw files and virtual datasets become plain data. An undefined fill value becomes the
    default one.

    Zarr to HDF5: datasets that never were in HDF5 get the layout that `hdf5.datasets` describes: compressed numbers of
    more than 64 KiB are stored in chunks with shuffle and gzip 4, everything else is contiguous.

    Examples
    --------
    >>> from hdmf_zarr_backend import WriteOptions, convert
    >>> report = convert("session.nwb", "converted.nwb.zarr")
    >>> options = WriteOptions(progress=True)
    >>> report = convert("session.nwb", "small.nwb.zarr", zarr_format=3, codec="zstd", write_options=options)
    >>> report = convert("converted.nwb.zarr", "again.nwb")  # the same HDF5 file again
    >>> settings = {"acquisition/*/data": {"chunks": (300, 2), "compressor": "zstd"}}
    >>> report = convert("session.nwb", "rechunked.nwb.zarr", settings=settings)
    """
    origin, goal = opening.path_or_store(source), opening.path_or_store(target)
    reading, writing = read_options or ReadOptions(), write_options or WriteOptions()
    request = Request(
        source=origin, target=goal, overwrite=overwrite, check=check, codec=codec_of_file(codec), chunks=chunks,
        storage=dict(storage_options or {}), resume=resume, shards=shards, reading=reading, options=writing,
        link_data=link_data, settings=settings or {},
    )  # fmt: skip
    source_format: Format = "hdf5" if to == "virtual" else _format_of(request)
    if to is None:
        is_folder = source_format == "hdf5" and isinstance(goal, str) and os.path.isdir(goal)
        to = "zarr" if isinstance(goal, Store) or is_folder or ends_with(goal, ZARR_SUFFIXES) else "hdf5"
    request.refuse_idle(source_format, to)
    if to == "virtual":
        return request.hdf5_to_references(zarr_format)
    request.choose_format(source_format, to, zarr_format)
    if to == "hdf5" and (not isinstance(goal, str) or is_url(goal)):
        problem = "an HDF5 file is written to a local path"
        raise errors.UsageError(problem, store=request.target_location, remedy="Upload it afterwards.")
    opening.check_apart(request.location, request.target_location)
    with opened("threads" if writing.executor == "auto" else writing.executor) as executor:
        strict_json = writing.strict_json or request.abilities.strict_json
        request.options = replace(writing, executor=executor, strict_json=strict_json)
        if to == "hdf5":
            return request.zarr_to_hdf5()
        report = request.hdf5_to_zarr() if source_format == "hdf5" else request.zarr_to_zarr()
    # of Icechunk: the session is committed after the file is complete
    if writing.commit_message is not None and isinstance(goal, Store):
        with Writer(goal) as writer:
            writer.commit_session(writing.commit_message)
    return report


def needed_format(settings: Settings | None, *, nczarr: bool, shards: ShardsOfFile) -> int | None:
    """Return the only format that a new file with these options can have, None if they leave the choice."""
    has_shards = any(each is not None for each in (shards, *(given.get("shards") for _, given in _pairs(settings))))
    return 2 if nczarr else 3 if has_shards else None


def _format_of(request: Request) -> Format:
    source = request.source
    if isinstance(source, Store) or is_url(source):
        store = request.open(source)
        if ends_with(store.location, (*ZARR_SUFFIXES, *opening.FILE_SUFFIXES)):  # without a request
            return "zarr"
        # a missing file is of the format that its name states
        is_hdf5_file = opening.is_of_hdf5(store) or (ends_with(store.location, HDF5_SUFFIXES) and not store.exists())
        return "hdf5" if is_hdf5_file else "zarr"
    if opening.is_hdf5(source):
        return "hdf5"
    if os.path.isdir(source) or (source.endswith(opening.FILE_SUFFIXES) and os.path.isfile(source)):
        return "zarr"
    if not os.path.lexists(source):
        raise not_found(source, source)
    remedy = "Give a file of one of these formats; if it should be HDF5, it may be damaged or incomplete."
    raise errors.NotZarrError("this is neither an HDF5 file nor a Zarr directory", store=source, remedy=remedy)


@dataclass(slots=True, kw_only=True)
class Request:
    """The arguments of `convert`, and what is done with them for each source and target; `dry_run` makes one too."""

    source: str | Store
    target: str | Store
    reading: ReadOptions
    options: WriteOptions
    storage: dict[str, Any] = field(default_factory=dict)
    overwrite: bool = False
    check: bool = True
    codec: Any = "keep"
    chunks: Literal["keep"] | None = None
    shards: ShardsOfFile = None
    resume: bool = False
    link_data: bool = True
    settings: Settings = field(default_factory=dict)
    layouts: dict[str, Layout] = field(default_factory=dict)
    filled: list[str] = field(default_factory=list)  # remarks on chunks that were missing or damaged
    zarr_format: int = 2
    has_both: bool = False
    location: str = field(init=False)
    target_location: str = field(init=False)

    def __post_init__(self) -> None:
        self.location = self.source if isinstance(self.source, str) else self.source.location
        self.target_location = self.target if isinstance(self.target, str) else self.target.location
        if self.chunks not in (None, "keep"):
            given: Any = self.chunks
            chunks = given if isinstance(given, tuple) else (30_000, 64)
            remedy = f"Use 'keep', or settings={ {'acquisition/*/data': {'chunks': chunks}} }."
            raise errors.UsageError(f"chunks={given!r} is unknown", store=self.target_location, remedy=remedy)
        if self.options.commit_message is not None and not self.abilities.commits:
            problem = "commit_message= does not apply here: it is for Icechunk"
            remedy = "Leave it out, or give a writable session of Icechunk as the target."
            raise errors.UsageError(problem, store=self.target_location, remedy=remedy)

    @property
    def abilities(self) -> Abilities:
        """What the target can do, as far as it is known before a path or a URL is opened."""
        return self.target.abilities if isinstance(self.target, Store) else Abilities()

    def refuse_idle(self, source_format: Format, to: str) -> None:
        """Refuse options that would have no effect."""
        if self.storage and not (is_url(self.location) or is_url(self.target_location)):
            remedies = {"remedy": "Leave storage_options= out.", "remedy_cli": "Leave -O out."}
            raise errors.UsageError("storage_options are for URLs", store=self.location, **remedies)
        defaults: dict[str, Any] = {"codec": "keep", "chunks": None, "resume": False, "shards": None}
        defaults |= {"link_data": True, "settings": {}}
        own = {name for name, default in defaults.items() if getattr(self, name) != default}
        for name in sorted(own | self.reading.given() | self.options.given()):
            from_format, to_format = _MEANT_FOR.get(name, (None, None))
            if name in _OF_WRITES or (to == "virtual" and name not in _OF_VIRTUAL):
                purpose = "ZarrIO" if name in _OF_WRITES else "data that are copied"
            elif from_format in (None, source_format) and to_format in (None, to):
                continue
            else:
                ends = (("from", from_format), ("to", to_format))
                purpose = " ".join(["conversions", *(f"{end} {_NAMES[kind]}" for end, kind in ends if kind)])
            option = _OPTIONS.get(name) or f"--{name}".replace("_", "-")
            more = _COPY_LINKED if name == "link_data" else ""
            remedies = {"remedy": f"Leave {name}= out.{more}", "remedy_cli": f"Leave {option} out.{more}"}
            problem = f"{name} does not apply here: it is for {purpose}"
            raise errors.UsageError(problem, store=self.target_location, **remedies)

    def choose_format(self, source_format: Format, to: str, zarr_format: ZarrFormat | None) -> None:
        """Set the Zarr format, and check it and the options that depend on it."""
        if to not in ("zarr", "hdf5"):
            raise errors.UsageError(f"to={to!r} is not a format", remedy="Use 'zarr' or 'hdf5'.")
        if zarr_format not in (None, 2, 3, BOTH) or (zarr_format is not None and to == "hdf5"):
            problem = f"{zarr_format!r} is not a Zarr format of the target"
            remedy = f"Leave zarr_format={zarr_format!r} out, or use 2, 3 or 'both' and a target of Zarr."
            cli = f"Leave --zarr-format {zarr_format} out, or let the target be of Zarr."
            raise errors.UsageError(problem, remedy=remedy, remedy_cli=cli)
        if source_format == to == "hdf5":
            remedy = f"{_TO_ZARR} or pass to='zarr'. {_COPY}"
            cli = f"{_TO_ZARR} or use --to zarr; for several sources, name a folder with --output. {_COPY}"
            raise errors.UsageError("the source is HDF5 already", store=self.location, remedy=remedy, remedy_cli=cli)
        nczarr, possible = self.options.nczarr, self.abilities.formats
        needed = needed_format(self.settings, nczarr=nczarr, shards=self.shards)
        is_free = zarr_format is None and needed is None and named_format() is None
        if is_free and source_format == to == "zarr":  # a copy keeps the format, if the target can have it
            parsed = parse(self.open(self.source, self.reading), use_inlined=False)
            own = next((n for n in (2, 3) if n == parsed.zarr_format and n in possible), None)
            zarr_format = BOTH if parsed.state is not None and len(possible) > 1 else own
        if to == "zarr":
            zarr_format = zarr_format or registry.default_format(possible, needed=needed)
        self.zarr_format, self.has_both = 3 if zarr_format == 3 else 2, zarr_format == BOTH
        self.shards = planning.checked_shards(self.shards, self.zarr_format)
        check_key_encoding(self.options.chunk_key_encoding, self.zarr_format)
        check_format(self.zarr_format, self.target_location, nczarr=nczarr)

    def open(self, file: str | Store, reading: ReadOptions | None = None) -> Store:
        """Open source or target; the options for URLs are for those of the two that are URLs."""
        return opening.open_store(file, self.storage if isinstance(file, str) and is_url(file) else None, reading)

    def open_source(self) -> LinkedFile:
        """Open a Zarr file to be copied."""
        store = self.open(self.source, self.reading)
        # in a file that states that all its chunks are stored, a missing one is an error: a copy would have fill values
        store.read_rules = replace(store.read_rules, is_copied=True)
        warn_of_pending(store)
        parsed = parse(store)
        if self.reading.missing_chunks == "fill":
            # the consolidated document may have a good copy of a scalar, which readers use
            store, options = parsed.store(store), self.options
            lost, self.filled = lost_chunks(store, parsed.hierarchy, options.executor, options.receiver)
            store.read_rules = replace(store.read_rules, lost=lost)
        return LinkedFile(store, parsed.hierarchy, self.location)

    def open_target(self) -> Store:
        """Open the store of a new Zarr file, after checking that it may be written."""
        store = self.open(self.target)
        if self.resume and not may_resume(store):
            problem = "only a conversion to a local folder or to a bucket can be resumed"
            remedy = "Run it without resume=True, which starts again; overwrite=True replaces an incomplete target."
            cli = remedy.replace("resume=True", "--resume").replace("overwrite=True", "--overwrite")
            raise errors.UsageError(problem, store=store.location, remedy=remedy, remedy_cli=cli)
        opening.check_abilities(store, "w")
        check_outside(store, is_new=True)
        # what an interrupted conversion has left in a bucket is compared with this one later, with the lock
        is_left = self.resume and store.folder is None and store.get(RECORD) is not None
        opening.check_free(store, overwrite=self.overwrite or is_left)
        return store

    @contextmanager
    def planned_hdf5(self) -> Iterator[tuple[Hdf5Tree, Hdf5Planner]]:
        """Yield the objects of an HDF5 file, and what has planned its copy."""
        storage = self.source.options if isinstance(self.source, Store) else self.storage
        # While HDF5 waits for the bytes of a URL, a garbage collector in another thread would wait for HDF5.
        pause = gc_paused() if is_url(self.location) else nullcontext()
        with pause, closing(Hdf5Tree(self.location, self.target_location, storage, self.reading)) as tree:
            strict = self.options.strict_json
            planner = Hdf5Planner(tree, self.codec, self.chunks == "keep", self.shards, strict, self.reading)
            planner.plan_file(self.zarr_format, is_checked=self.check, or_installed=True)
            yield tree, planner

    def apply(self, plan: WritePlan) -> None:
        """Set what the options and settings change in a plan."""
        plan.apply(self.options)
        arrays = {path: planned.node for path, planned in plan.arrays.items()}
        self.layouts = layouts_of(self.settings, arrays, plan.hierarchy, self.location)
        for path, layout in self.layouts.items():
            planning.choose_layout(plan.arrays[path], layout)

    def write(self, store: Store, plan: WritePlan, tree: Hdf5Tree | None = None) -> None:
        """Write the target. A copy of HDF5, with its ``tree``, may be resumed."""
        self.apply(plan)
        budget = self.options.memory_budget
        planning.adapt_plan(plan, location=self.target_location, store=store, memory_budget=budget)
        resume = self.resumption(plan, tree) if tree is not None and may_resume(store) else None
        # exclusive: another program may have made the target since it was found free
        with new_file(store, plan, self.options, exclusive=not self.overwrite, resume=resume) as (change, planned):
            root = planned.write()
            if self.has_both:
                # on use: it loads hdmf and zarr, which the other conversions from HDF5 do without
                from hdmf_zarr_backend.hdmf.from_zarr import with_format_3

                root = with_format_3(change, plan, root, self.options)
            if tree is not None:
                tree.check()
            opening.remove_empty_folder(store)
            change.commit({}, root)

    def resumption(self, plan: WritePlan, tree: Hdf5Tree) -> Resumption:
        """Return the inputs of a conversion, by which another run knows that it may continue it."""
        # They are the version of this package, bytes and time (or tag) of each file that is read, the options that
        # affect what is written, as JSON, and a hash of all planned documents.
        options = {
            "codec": self.codec,
            "zarr_format": "both" if self.has_both else self.zarr_format,
            "chunks": self.chunks,
            "nczarr": self.options.nczarr or None,
            "shards": list(self.shards) if isinstance(self.shards, tuple) else self.shards,
            "strict_json": self.options.strict_json or None,
            "chunk_key_encoding": self.options.chunk_key_encoding,
            **{f"--set {absolute(path)}": _as_set(layout) for path, layout in self.layouts.items()},
        }
        everything = registry.FORMATS[plan.hierarchy.zarr_format].last(plan.hierarchy, {}, consolidate=True)
        record = {
            # the root package sets its version, and cannot be imported here
            "version": str(sys.modules[__name__.partition(".")[0]].__version__),
            "sources": tree.states(),
            "options": {name: value for name, value in options.items() if value is not None},
            "plan": hashlib.sha256(dump(everything)).hexdigest(),
        }
        return Resumption(record, partial(_differences, record), self.resume)

    def report(self, plan: WritePlan, joined: Iterable[str] = (), without_fill: Iterable[str] = ()) -> ConversionReport:
        """Return the report of a conversion to Zarr that carried out a plan, with the paths of what differs."""
        asked = [self.shards, *(layout.shards for layout in self.layouts.values())]
        is_idle = any(asked) and not any(array.node.stored.shards for array in plan.arrays.values())
        remarks = self.filled + _remarks(_CHOSEN, self.layouts) + ([_NO_SHARDS] if is_idle else [])
        remarks += _remarks(_JOINED, (path for path in joined if path not in self.layouts))
        remarks += _remarks(_NO_FILL, without_fill)
        is_counted = _is_content(plan.hierarchy)
        groups = [node for path, node in plan.hierarchy.flat().items() if isinstance(node, Group) and is_counted(path)]
        links = sum(len(node.attributes.get(LINKS, [])) for node in groups)
        counts = len(groups), sum(map(is_counted, plan.arrays)), links
        nbytes = sum(value_bytes(planned.node.stored) for planned in plan.arrays.values())
        return ConversionReport(self.location, self.target_location, "zarr", *counts, nbytes, tuple(remarks))

    def hdf5_to_zarr(self) -> ConversionReport:
        """Copy an HDF5 file."""
        store = self.open_target()
        with self.planned_hdf5() as (tree, planner):
            self.write(store, planner.plan, tree)
            return self.report(planner.plan, planner.joined, planner.without_fill)

    def zarr_to_zarr(self) -> ConversionReport:
        """Copy a Zarr file to another place, in any format of Zarr."""
        from hdmf_zarr_backend.hdmf.from_zarr import ZarrPlanner

        main = self.open_source()
        separators = {node.stored.chunk_keys.separator for _, node in main.hierarchy.arrays()}
        # a copy of a file without folders of chunks, as for DANDI's limit, has none either
        is_flat = main.hierarchy.zarr_format == 3 and separators == {"."}
        if self.options.chunk_key_encoding is None and self.zarr_format == 3 and is_flat:
            self.options = replace(self.options, chunk_key_encoding="v2")
        store = self.open_target()
        if self.check:
            check_zarr(main)
        planner = ZarrPlanner(main.store, main.hierarchy, self.target_location, zarr_format=self.zarr_format)
        plan = planner.plan_file()
        for problem in without_target(Resolver(main.store, main.hierarchy, main.location), planner.cache)[0]:
            warn_broken(f"{main.location}, {problem.path}: {problem.message}; it is copied unchanged.")
        for path, planned in plan.arrays.items():
            node = main.hierarchy.get(path)
            if self.shards is None and isinstance(node, Dataset) and node.stored.shards is not None:
                planned.sharding = Sharding(node.stored.shards.shape, are_chunks_given=True, is_kept=True)
            else:
                planning.ask_for_shards(planned, self.shards)
        name_axes(plan, schema_of(main.store, main.hierarchy))
        if self.options.strict_json:
            for _, node in plan.hierarchy.walk():
                node.attributes = strict_attributes(node.attributes)
        self.write(store, plan)
        return self.report(plan)

    def zarr_to_hdf5(self) -> ConversionReport:
        """Convert to HDF5; the new file is written beside the target, and moved there when it is complete."""
        # on use: few conversions need what writes HDF5
        from hdmf_zarr_backend.hdf5.tree import LinkNames, Placement
        from hdmf_zarr_backend.hdf5.writer import Hdf5Writer, named

        target = self.target_location
        store = LocalStore(target)
        opening.check_free(store, overwrite=self.overwrite, empty_folder=False)
        main = self.open_source()
        check_outside(store, is_new=True)
        typed = check_zarr(main) if self.check else {}
        resolver = Resolver(main.store, main.hierarchy, main.location)

        @cache
        def names() -> LinkNames:
            return link_names(schema_of(main.store, main.hierarchy, or_installed=True) if self.check else None)

        placement = Placement(resolver, target, names, copies_links=not self.link_data)
        arrays = {placed.path: placed.node for placed in placement.nodes if isinstance(placed.node, Dataset)}
        layouts = layouts_of(self.settings, arrays, main.hierarchy, main.location)
        if any(layout.shards is not None for layout in layouts.values()):
            raise errors.UsageError("HDF5 has no shards", store=target, remedy="Leave shards out of the settings.")
        nbytes = 0
        for placed in placement.nodes:
            if isinstance(placed.node, Dataset):
                with named(placed):
                    nbytes += value_bytes(placed.node.stored)
        with new_local_file(store, exclusive=not self.overwrite, durable=self.options.durable) as path:
            is_nwb = self.check and main.hierarchy.root.attributes.get("neurodata_type") == "NWBFile"
            writer = Hdf5Writer(path, placement, typed, allows_null=not is_nwb, options=self.options, layouts=layouts)
            with reporting(self.options.receiver, nbytes):
                writer.write()
        is_counted = _is_content(main.hierarchy)
        nodes = [placed.node for placed in placement.nodes if is_counted(placed.path)]
        datasets = sum(isinstance(node, Dataset) for node in nodes)
        groups, links = len(nodes) - datasets, len(placement.links)
        remarks = self.filled + _remarks(_CHOSEN, layouts)
        if lossy := writer.json_attributes:
            which = f"{counted(len(lossy), 'attribute')}, which a conversion to Zarr restores: {few(lossy)}"
            remarks.append(f"HDF5 has no type for {which}")
        return ConversionReport(main.location, target, "hdf5", groups, datasets, links, nbytes, tuple(remarks))

    def hdf5_to_references(self, zarr_format: ZarrFormat | None) -> ConversionReport:
        """Write a JSON file of references to the chunks of an HDF5 file."""
        source, target, options = self.source, self.target, self.options
        if not isinstance(source, str) or not isinstance(target, str):
            problem = "a virtual conversion needs an HDF5 file as source and a JSON file as target"
            raise errors.UsageError(problem, store=self.target_location, remedy="Give paths or URLs.")
        if zarr_format not in (None, 2, 3):
            remedies = {"remedy": "Use zarr_format=2 or 3.", "remedy_cli": "Use --zarr-format 2 or 3."}
            problem = f"a virtual file has one Zarr format, not {zarr_format!r}"
            raise errors.UsageError(problem, store=target, **remedies)
        if not ends_with(target, ".json"):
            remedy = "Use a name that ends in '.zarr.json'."
            raise errors.UsageError("references are written to one JSON file", store=target, remedy=remedy)
        if is_url(target) and not is_url(source):
            remedy = "Upload the HDF5 file first and give its URL, or write the references here and upload both."
            raise errors.UsageError("references on a server cannot point to a local file", store=target, remedy=remedy)
        if not is_url(target) and os.path.isdir(target):
            raise errors.StoreExistsError("a directory exists there", store=target, remedy="Choose another path.")
        number = zarr_format or (3 if registry.default_format((2, 3)) == 3 else 2)
        if not is_url(source) and not os.path.lexists(source):
            raise errors.StoreNotFoundError("the file does not exist", store=source, remedy="Check the path.")
        opening.check_apart(source, target)
        folder, name = split_location(target)
        abilities = open_folder(folder, self.storage if is_url(target) else {}).abilities
        if not abilities.write:  # checked before anything is read
            remedy = "Write the references here, and upload them."
            raise errors.ReadOnlyStoreError(abilities.why, store=target, remedy=remedy)
        store = self.open(target)
        check_outside(store, is_new=True)
        opening.check_free(store, overwrite=self.overwrite)
        with closing(Hdf5Tree(source, target, self.storage, self.reading)) as tree:
            plan, text = references(tree, number, options.receiver, is_checked=self.check)
        if len(text) > Limits().max_document_bytes:
            what = f"{target} has {len(text):,} bytes, more than the default limit for reading; open it with"
            limits = f"Limits(max_document_bytes=2**{len(text).bit_length()})"
            warn(f"{what} read_options=ReadOptions(limits={limits}).")
        if is_url(target):
            put_file(open_folder(folder, self.storage), name, text)
        else:
            new = new_local_file(LocalStore(target), exclusive=not self.overwrite, durable=options.durable)
            with new as path, open(path, "xb") as file:
                file.write(text)
        return self.report(plan)


def _differences(now: dict[str, Any], stored: dict[str, Any]) -> list[str]:
    """Return messages about the differences of a stored record from that of this run; causes, as far as known."""
    then = {name: type(value)(stored[name]) for name, value in now.items()}
    if then["version"] != now["version"]:
        return [f"it was started by version {then['version']} of this package, and this is {now['version']}"]
    old, new = then["sources"], now["sources"]
    differences = [f"{path} was read then but is not read now" for path in sorted(old.keys() - new.keys())]
    differences += [f"{path} is read now but was not read then" for path in sorted(new.keys() - old.keys())]
    differences += [f"{path} has changed since" for path in sorted(old.keys() & new.keys()) if old[path] != new[path]]
    for name in sorted(then["options"].keys() | now["options"].keys()):
        before, after = (options.get(name) for options in (then["options"], now["options"]))
        if before != after:
            option = name if name.startswith("--") else f"--{name.replace('_', '-')}"
            differences.append(f"{option} was {_shown(name, before)} and is {_shown(name, after)}")
    return differences or ["the plan has changed, because of another version of a library or another environment"]


def _shown(name: str, value: Any) -> str:
    """Return the value of an option as the command line has it, such as the word of ``--codec`` for a configuration."""
    if name == "codec":
        value = next((word for word, config in CODECS.items() if config == value), value)
    return "not given" if value is None else ",".join(map(str, value)) if isinstance(value, list) else str(value)


# ---- settings by the pattern of a path ------------------------------------------------------------------------------

_CHOICES = ("chunks", "chunk_elements", "chunk_aspect_ratio", "compressor", "filters", "shards")
# expressions for the wildcards of a pattern: ``*`` and ``?`` inside of a name, ``**`` across
_WILDCARDS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def _pairs(settings: Settings | None) -> list[tuple[str, Mapping[str, Any]]]:
    """Return each pattern with its options, those of a `ZarrDataIO` too."""
    pairs = settings.items() if isinstance(settings, Mapping) else settings or ()
    return [(pattern, getattr(options, "io_settings", options)) for pattern, options in pairs]


def layouts_of(
    settings: Settings, arrays: Mapping[str, Dataset], hierarchy: Hierarchy, location: str
) -> dict[str, Layout]:
    """Return what settings choose for the arrays that their patterns match; refuse what matches or fits none."""
    if not settings:
        return {}
    from hdmf_zarr_backend.hdmf.dataio import ZarrDataIO  # on use: hdmf is slow to import

    is_content = _is_content(hierarchy)
    known = [path for path, node in arrays.items() if is_content(path) and not is_scalar(node)]
    chosen: dict[str, dict[str, Any]] = {}
    unmatched: list[str] = []
    for pattern, given in _pairs(settings):
        if unknown := [name for name in given if name not in (*_CHOICES, "codec", "compressors")]:
            raise unknown_argument("settings", unknown, frozenset(_CHOICES))
        parts = re.split(r"(\*\*/?|\*|\?)", relative(pattern))
        expression = re.compile("".join(_WILDCARDS.get(part) or re.escape(part) for part in parts), re.DOTALL)
        matches = list(filter(expression.fullmatch, known))
        unmatched += [] if matches else [pattern]
        own = {"compressor" if name == "codec" else name: value for name, value in given.items()}
        for path in matches:
            chosen[path] = {**chosen.get(path, {}), **own}
    if unmatched:
        similar = get_close_matches(relative(unmatched[0]), known, n=3, cutoff=0.4) or known[:3]
        remedy = f"Did you mean {' or '.join(map(repr, similar))}? If not, leave" if similar else "Leave"
        remedy += " the pattern out (--set)."
        names = few(list(map(repr, unmatched)))
        error = NoMatchError(f"no dataset with an axis matches {names}", store=location, remedy=remedy)
        error.patterns = frozenset(unmatched)
        raise error
    layouts = {}
    for path, given in chosen.items():
        with at(location, path):
            layouts[path] = _layout_of(ZarrDataIO(**given), arrays[path])
    return layouts


def _layout_of(chosen: ZarrDataIO, node: Dataset) -> Layout:
    """Return what is chosen for an array, with chunks that are not longer than the array can be."""
    layout, axes = Layout(**{name: getattr(chosen, name) for name in _CHOICES}), describe(node).axes
    if layout.chooses_by_elements:
        layout.chunks = layout.choose_chunks(axes, 1)
    for name, lengths in (("chunks", layout.chunks), ("shards", layout.shards)):
        if isinstance(lengths, tuple) and len(lengths) != len(axes):
            problem = f"{name} {lengths} do not fit the shape {axes}"
            raise errors.UsageError(problem, remedy="Give one length for each axis, or a pattern that leaves it out.")
    if layout.chunks is not None:
        bounds = zip(layout.chunks, notes_of(node.attributes).get("maxshape") or axes, strict=True)
        layout.chunks = tuple(min(length, bound or length) for length, bound in bounds)
    return layout


# ---- what was written ------------------------------------------------------------------------------------------------


def _as_set(layout: Layout) -> str:
    """Return what is chosen for a dataset in the words of ``--set``."""
    given = [(name, value) for name in _CHOICES if (value := getattr(layout, name)) not in (None, [])]
    texts = {name: ",".join(map(str, value)) if isinstance(value, tuple) else str(value) for name, value in given}
    if texts.pop("compressor", None) is not None:
        texts = {"codec": _shown("codec", layout.compressor), **texts}
    return " ".join(f"{name}={text}" for name, text in texts.items())


def _remarks(text: str, paths: Iterable[str]) -> list[str]:
    """Return a remark about some datasets, none if there are none."""
    names = list(map(absolute, paths))
    return [f"{text.format(counted(len(names), 'dataset'))}: {few(names)}"] if names else []


def _is_content(hierarchy: Hierarchy) -> Callable[[str], bool]:
    """Return a function that tells whether a path is content, and not in the cached specifications of a file."""
    specs = spec_location(hierarchy.root.attributes.get(SPECLOC))
    return lambda path: specs is None or not f"{relative(path)}/".startswith(f"{specs}/")
