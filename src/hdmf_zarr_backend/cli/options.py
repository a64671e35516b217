"""Options that several commands have, so that each is called the same and means the same everywhere."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import Any

from hdmf_zarr_backend.errors import UsageError

CODECS = ("keep", "blosc", "zstd", "zlib", "none")
"""What `convert` and `dry_run` take as ``codec`` by name."""


def add_storage_option(parser: ArgumentParser) -> None:
    """Give a command the option ``--storage-option``."""
    parser.add_argument(
        "-O",
        "--storage-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option for URLs, such as anon=true or endpoint_url=http://host:9000; can be repeated",
    )


def storage_options(arguments: Namespace) -> dict[str, Any]:
    """Return what ``--storage-option`` says.

    Raises
    ------
    UsageError
        One of them has no name.
    """
    options: dict[str, Any] = {}
    for said in arguments.storage_option:
        name, mark, text = said.partition("=")
        if not (name and mark):
            raise UsageError(f"the storage option {said!r} has no name and value", remedy="Write NAME=VALUE.")
        try:
            options[name] = json.loads(text)
        except ValueError:
            options[name] = text
    return options


def add_verbose_option(parser: ArgumentParser, text: str = "print each finding, also those that are alike") -> None:
    """Give a command the option ``--verbose``, with what it says of it."""
    parser.add_argument("-v", "--verbose", action="store_true", help=text)


def add_jobs_option(parser: Any) -> None:
    """Give a command, or a group of its options, the option ``--jobs``."""
    parser.add_argument("--jobs", type=_number, metavar="N", help="number of threads (default: one per core)")


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise ArgumentTypeError(f"{text!r} is no number of threads; give a whole number from 1")
    return int(text)


def executor_of(arguments: Namespace) -> Any:
    """Return what ``--jobs`` says, as ``executor`` of a function."""
    return arguments.jobs or "threads"


def add_format_option(parser: ArgumentParser, text: str, *, default: int | None = None) -> None:
    """Give a command the option ``--zarr-format``, with what it says of it."""
    parser.add_argument("--zarr-format", type=int, choices=(2, 3), default=default, help=text)


def add_encoding_options(parser: ArgumentParser) -> None:
    """Give a command the options ``--codec``, ``--shards`` and ``--nczarr``, which say how a Zarr file is stored."""
    parser.add_argument(
        "--codec",
        choices=CODECS,
        default="keep",
        help="HDF5 to Zarr: keep the chunks of large datasets, or compress them anew (default: %(default)s)",
    )
    parser.add_argument(
        "--shards",
        type=_shards,
        metavar="auto|N,...",
        help="to Zarr format 3: put the chunks of large arrays together in shards, chosen by bytes, or of these "
        "lengths (of arrays with as many axes)",
    )
    parser.add_argument(
        "--nczarr", action="store_true", help="to Zarr format 2: let netcdf-c open the file, in its mode nczarr"
    )


def _shards(text: str) -> tuple[int, ...] | str:
    if text == "auto":
        return text
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) for part in parts):
        raise ArgumentTypeError(f"invalid shards value: {text!r}; give auto, or lengths such as 40000,64")
    return tuple(map(int, parts))


def add_external_links_option(parser: ArgumentParser) -> None:
    """Give a command that reads the option ``--external-links``."""
    parser.add_argument(
        "--external-links",
        choices=("follow", "within", "never"),
        help="which other files links are followed to (default: any from a local file, its folder from a remote one)",
    )
