"""`verify`: checks a file for damage, level by level."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from operator import itemgetter
from typing import Any, Literal, get_args

from hdmf_zarr_backend.array.content import ArrayReader, uneven_series
from hdmf_zarr_backend.check.contents import ChunkCheck, check_targets, note_unchecked
from hdmf_zarr_backend.check.findings import DandiAsset, Report
from hdmf_zarr_backend.check.structure import Structure, check_structure
from hdmf_zarr_backend.comparison import compare_values
from hdmf_zarr_backend.encoding.parser import Resolver, parse
from hdmf_zarr_backend.encoding.references import decode_reference
from hdmf_zarr_backend.errors import DamagedFileError, IsHdf5Error, UsageError, ZarrBackendError, known_arguments, warn
from hdmf_zarr_backend.model.element import Target
from hdmf_zarr_backend.model.links import ends_with
from hdmf_zarr_backend.model.nodes import Dataset, Group, Hierarchy, ancestors, split
from hdmf_zarr_backend.model.render import few
from hdmf_zarr_backend.options import ReadOptions
from hdmf_zarr_backend.progress import SILENT, Progress, as_progress, reporting
from hdmf_zarr_backend.store.base import Store, node_of
from hdmf_zarr_backend.store.opening import FileSource, open_store
from hdmf_zarr_backend.store.remote import at_once
from hdmf_zarr_backend.write.tasks import runner

Level = Literal["structure", "links", "chunks", "schema"]
LEVELS: tuple[str, ...] = get_args(Level)
"""The levels of a check; each includes all before it."""


@known_arguments
def verify(
    source: FileSource,
    level: Level = "chunks",
    *,
    storage_options: Mapping[str, Any] | None = None,
    read_options: ReadOptions | None = None,
    executor: Any = None,
    dandi: bool = False,
    progress: Progress | bool = SILENT,
) -> Report:
    """Look for damage in a file, in Zarr or HDF5, without changing it.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store or zarr.Group
        The file; in HDF5 a local one, or a URL.
    level : {"structure", "links", "chunks", "schema"}
        ``structure``: documents parse, have only keys that the format defines, and agree with the consolidated
        document, as do the chunks in it. ``links``: the targets of links and references exist, and are the objects that
        were meant. ``chunks``: each chunk is stored, decodes, and has its full size, and the two copies of what a file
        of both formats stores twice are equal. ``schema``: the file is valid by its cached namespaces. Each level
        includes all before it. Of an HDF5 file: each object and its attributes can be read; targets exist; all values
        can be read; and its schema.
    storage_options : dict, optional
        For URLs.
    read_options : ReadOptions, optional
        Limits for the file, and other files that it may lead to.
    executor : None, "threads", "processes", int, concurrent.futures.Executor or dask.distributed.Client
        Decodes chunks; None: this thread, which always reads HDF5.
    dandi : bool
        Also check the requirements of the DANDI archive for a Zarr file (depth and names of its keys, number and size
        of its objects, subject; no links to other files, from the level ``links`` on), and compute its checksum there,
        which reads all data. An HDF5 file gets a warning instead.
    progress : bool or Progress
        True: show a bar of tqdm, in a terminal or a notebook. A `Progress` receives the number of bytes of the values
        that were decoded.

    Returns
    -------
    Report
        ``problems`` are damage, ``remarks`` may be intended.

    Raises
    ------
    StoreNotFoundError, NotZarrError
        No Zarr or HDF5 file exists there.
    UsageError
        The level is unknown.

    Examples
    --------
    >>> from hdmf_zarr_backend import verify
    >>> verify("session.nwb.zarr", progress=True).problems
    []

    Source: Zarr v2 and v3 specifications; docs/format, "Links", "References", "Consolidated metadata".
    """
    if level not in LEVELS:
        raise UsageError(f"there is no level {level!r}", remedy=f"Use one of {', '.join(LEVELS)}.")
    store = open_store(source, storage_options, read_options)
    report = Report(store.location, level)
    try:
        structure = check_structure(store, report)
    except IsHdf5Error:
        if dandi:
            warn(f"{store.location}: dandi applies to Zarr files only. Check an HDF5 file with `dandi validate` too.")
        from hdmf_zarr_backend.check.hdf5 import verify_hdf5  # on use: it imports h5py

        return verify_hdf5(store, level, as_progress(progress))
    # also of a file that is too damaged for the other checks
    if dandi:
        report.dandi = check_dandi(store, report)
    if dandi and structure is not None and (lack := lack_of_subject(structure.hierarchy)):
        report.add("general/subject", "dandi-subject", lack)
    if structure is None or level == "structure":
        return report
    check_targets(resolver := Resolver(store, structure.hierarchy), report)
    for owner, lengths in uneven_series(resolver):
        report.add(owner, "series-uneven", lengths)
    if report.checks_chunks:
        _check_chunks(store, structure, report, executor, as_progress(progress))
        note_unchecked(report)
    if level == "schema":
        from hdmf_zarr_backend.check.validate import add_problems_by_schema  # on use: hdmf is slow to import

        add_problems_by_schema(store, structure.hierarchy, report)
    return report


# ---- what a file of both formats stores twice -----------------------------------------------------------------------


def _check_chunks(store: Store, structure: Structure, report: Report, executor: Any, progress: Progress) -> None:
    """Decode all chunks, and compare what a file of both formats stores twice."""
    lost, others = structure.lost_chunks, structure.has_other_chunks
    checks = [ChunkCheck(store, structure.hierarchy, report, lost, has_other_chunks=others)]
    separate = Hierarchy(Group(), zarr_format=3)  # references and rows, which have chunks of their own in format 3
    # otherwise one of the formats is known to be out of date, and its values are expected to differ
    if structure.state == "alike":
        parsed = parse(store, hint=3).hierarchy
        # numbers and text have the same chunks in both formats; only arrays whose chunks differ have keys such as c/0
        arrays = {path: node for path, node in parsed.arrays() if node.stored.chunk_keys.encoding == "default"}
        separate = Hierarchy.from_flat({"": Group(parsed.root.attributes), **arrays}, zarr_format=3)
        checks.append(ChunkCheck(store, separate, report, has_other_chunks=True))
    with reporting(progress, sum(check.nbytes for check in checks)), runner(executor) as workers:
        for check in checks:
            check.run(workers, progress)
    # A program that knows one format only may have replaced values. Neither the documents nor their digests in the
    # note of `encoding.registry` change then, so the values themselves are compared. Chunks that cannot be read are
    # reported by the check of each format.
    reader = ArrayReader(store, _as_stated, as_hdf5=False)
    for path, node in separate.arrays() if store.abilities.listing else ():
        other = structure.hierarchy.get(path)
        with suppress(ZarrBackendError, OSError):
            if not isinstance(other, Dataset):
                continue
            a, b = (reader.content(path, each, {}, is_spec=False) for each in (other, node))
            if differences := [each.text for each in compare_values(path, a, b) if each.kind != "unreadable"]:
                what = f"the values in Zarr format 2 and those in format 3 differ: {few(differences)}"
                report.add(path, "formats-differ", what, is_repairable=True)


def _as_stated(value: Any) -> Target:
    """Return what a reference says, apart from the ids, which format 3 does not have."""
    reference = decode_reference(value)
    region = "" if reference.region is None else f" {reference.region}"
    return Target(f"{reference.source}:{reference.node_path}{region}")


# ---- the DANDI archive -----------------------------------------------------------------------------------------------
# dandi-cli refuses such a file before it is uploaded, which may be long after it was written.


def lack_of_subject(hierarchy: Hierarchy) -> str:
    """Return what DANDI requires of the subject of an NWB file, and the file lacks; "" if nothing."""
    subject = hierarchy.get("general/subject")
    if "nwb_version" not in hierarchy.root.attributes:
        return ""
    if not isinstance(subject, Group):
        return "the file has no subject"
    missing = [name for name in ("subject_id", "species", "sex") if name not in subject.members]
    missing += [] if subject.members.keys() & {"age", "date_of_birth"} else ["age"]
    return f"the subject has no {' and no '.join(missing)}" if missing else ""


DEEPEST = 7  # maximum number of names in a key, including the name of the object itself
# names of files and folders that are not uploaded and not part of the checksum
LEFT_OUT = frozenset({".dandi", ".datalad", ".git", ".gitattributes", ".gitmodules"})
# bytes of an object: the limit of S3 for one PUT; the archive takes the objects of a Zarr file in single requests
LARGEST_VALUE = 5 * 2**30
# dandi-cli#1520: an upload of 1.5 million objects (34 GB) died at 92 % after 36 hours, and at 32 % the second time
MANY_VALUES = 1_000_000  # objects, above which an upload may not finish
_SUFFIXES = (".zarr", ".ngff")
# S3 allows 1,024 bytes; the archive puts a file below zarr/ and its UUID
_LONGEST_KEY = 1024 - len("zarr/00000000-0000-0000-0000-000000000000/")
_PIECE = 2**22


def check_dandi(store: Store, report: Report) -> DandiAsset:
    """Check the requirements of the archive for a file, and return its checksum."""
    if not store.abilities.listing:
        problem = "this store cannot list its keys, so its checksum cannot be computed"
        raise UsageError(problem, store=store.location, remedy="Check a copy on a disk.")

    def md5(key: str) -> str:
        digest = hashlib.md5(usedforsecurity=False)
        for start in range(0, sizes[key], _PIECE):  # a shard may not fit into memory
            piece = store.get_range(key, start, min(start + _PIECE, sizes[key]))
            if piece is None:
                raise DamagedFileError(f"the value {key!r} was deleted", store=store.location, remedy="Check it again.")
            digest.update(piece)
        return digest.hexdigest()

    sizes = {key: size for key, size in store.sizes("").items() if not LEFT_OUT & set(key.split("/"))}
    if not ends_with(store.location, _SUFFIXES):
        report.add("/", "dandi-name", f"the name of the file does not end in {' or '.join(_SUFFIXES)}")
    if len(sizes) > MANY_VALUES:
        report.add("/", "dandi-count", f"it has {len(sizes):,} objects, more than {MANY_VALUES:,}")
    refused: tuple[tuple[str, str, Callable[[str], bool]], ...] = (
        ("dandi-depth", f"keys of more than {DEEPEST} names", lambda key: key.count("/") >= DEEPEST),
        ("dandi-name", f"keys of over {_LONGEST_KEY} bytes", lambda key: len(key.encode()) > _LONGEST_KEY),
        ("dandi-name", "keys with control characters", lambda key: not key.isprintable()),
        ("dandi-name", "keys with a backslash", lambda key: "\\" in key),
        ("dandi-size", f"values of over {LARGEST_VALUE:,} bytes", lambda key: sizes[key] > LARGEST_VALUE),
    )
    for kind, what, is_refused in refused:  # one finding for each node and kind
        by_node: dict[str, list[str]] = {}
        for key in filter(is_refused, sizes):
            by_node.setdefault(node_of(key), []).append(key)
        for node, keys in sorted(by_node.items()):
            report.add(node, kind, f"{what}: {few(sorted(keys), count=len(keys))}")
    digests = dict(zip(sizes, at_once(md5, sizes), strict=True))
    depth = max((key.count("/") + 1 for key in sizes), default=0)
    return DandiAsset(checksum(digests, sizes), len(sizes), sum(sizes.values()), depth)


def checksum(digests: Mapping[str, str], sizes: Mapping[str, int]) -> str:
    """Return the checksum of a tree of values, as the package zarr_checksum computes it: folders like a Merkle tree."""
    inside: dict[str, dict[str, list[Any]]]
    inside = {folder: {"directories": [], "files": []} for folder in {"", *ancestors(digests)}}
    for key, digest in digests.items():
        folder, name = split(key)
        inside[folder]["files"].append({"digest": digest, "name": name, "size": sizes[key]})
    digest = ""
    # the checksum of a folder is in that of the folder above it
    for folder in sorted(inside, key=lambda path: -path.count("/") - bool(path)):  # innermost folders first
        listed = {kind: sorted(entries, key=itemgetter("name")) for kind, entries in inside[folder].items()}
        count = len(listed["files"]) + sum(int(each["digest"].split("-")[1]) for each in listed["directories"])
        size = sum(each["size"] for entries in listed.values() for each in entries)
        text = json.dumps(listed, separators=(",", ":"))
        digest = f"{hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()}-{count}--{size}"
        parent, name = split(folder)
        if folder:
            inside[parent]["directories"].append({"digest": digest, "name": name, "size": size})
    return digest
