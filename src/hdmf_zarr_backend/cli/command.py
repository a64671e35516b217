"""The shared parts of all commands of `zarrio`: `Command`, output, options, and work on many files."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import time
import warnings
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from inspect import cleandoc
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TextIO, TypeAlias, TypeVar
from urllib.parse import urlsplit

from hdmf_zarr_backend.errors import NotZarrError, UsageError, ZarrBackendError, printable, warn, without_secrets
from hdmf_zarr_backend.model.links import HDF5_SUFFIXES, ZARR_SUFFIXES, is_url, split_chain
from hdmf_zarr_backend.model.render import Form, View, counted, finding_lines
from hdmf_zarr_backend.options import CODECS, Limits, ReadOptions, WriteOptions
from hdmf_zarr_backend.progress import Batch, Progress, terminal_progress

T = TypeVar("T")

EACH_FINDING = "print each finding, even if it is similar to others"  # the help of ``--verbose``

# what two warnings may differ in and still be alike, as findings may in names and numbers
_PATH = re.compile(r"(?<!\S)/\S+")

Part: TypeAlias = Callable[[Any], object]  # adds an argument, or several, to a parser or to a group of them
FileKind: TypeAlias = Literal["HDF5", "Zarr"]
Style: TypeAlias = Literal["bold", "red", "green", "yellow", "cyan"]
_CODES: dict[Style, str] = {"bold": "1", "red": "1;31", "green": "32", "yellow": "33", "cyan": "36"}


def has_colour(stream: TextIO) -> bool:
    """Return whether to write colours to a stream: to a terminal, not to a file or a pipe."""
    # no-color.org and force-color.org: a variable counts if it is set and not empty; if both are, colours are off
    if os.environ.get("NO_COLOR") or os.environ.get("FORCE_COLOR"):
        return not os.environ.get("NO_COLOR")
    if not stream.isatty() or os.environ.get("TERM") == "dumb":
        return False
    # the old console of Windows prints escape sequences as they are; Windows Terminal sets WT_SESSION, Git Bash TERM
    return sys.platform != "win32" or bool(os.environ.get("WT_SESSION") or os.environ.get("TERM"))


def painted(text: str, style: Style, stream: TextIO | None = None) -> str:
    """Return text in a style if the stream, standard output by default, shows colours; else unchanged."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if text and has_colour(stream or sys.stdout) else text


class Exit(IntEnum):
    """Exit codes of all commands: those of ``diff`` and ``grep``, and after Ctrl-C that of shells."""

    OK = 0
    FOUND = 1
    FAILED = 2
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Command:
    """One command of `zarrio`."""

    name: str
    usage: str
    summary: str
    description: str
    examples: str
    parts: Sequence[Part]
    run: Callable[[Namespace], int]


def command(line: str, *parts: Part) -> Callable[..., Command]:
    """Return a decorator that makes a command of the function that runs it, with its docstring as the help."""
    name, _, usage = line.partition(" ")

    def make(run: Callable[[Namespace], int]) -> Command:
        help_text = run.__doc__ or f"{name}\n\n{usage}"  # Python has no docstrings with -OO
        summary, *description, examples = cleandoc(help_text).split("\n\n")
        summary = summary[:1].lower() + summary[1:].removesuffix(".")
        return Command(name, usage, summary, "\n\n".join(description), examples, parts, run)

    return make


def complain(message: str | BaseException, *, is_warning: bool = False) -> None:
    """Write an error or a warning as one line to standard error."""
    text = message.cli_text() if isinstance(message, ZarrBackendError) else str(message)
    # one line each, so that the messages of a batch can be counted and searched
    start = painted("zarrio: warning:", "yellow", sys.stderr) if is_warning else painted("zarrio:", "red", sys.stderr)
    print(start, printable(" ".join(text.split())), file=sys.stderr)


def form_of(arguments: Namespace) -> Form:
    """Return how the options of a command let it print its result."""
    verbose, limit = getattr(arguments, "verbose", True), getattr(arguments, "limit", 0)
    return Form(verbose, limit, painted, "; --verbose shows each", "; --limit 0 shows them all")


def show(result: View, arguments: Namespace, name: str | None = None) -> None:
    """Write the view of a result to standard output."""
    for line in result.lines(form_of(arguments), name):
        print(line)


def say(line: str) -> None:
    """Write a line to standard output; names and values of files in it may be crafted."""
    print(printable(line))


def print_json(document: Any) -> None:
    """Write a document to standard output as strict JSON in ASCII; NaN and infinities, which JSON lacks, are text."""
    # ASCII passes through every terminal and pipe, and json escapes all control characters
    print(json.dumps(_strict(document), indent=2, allow_nan=False))


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    if isinstance(value, bytes):  # a name on a disk need not be UTF-8
        return value.decode("utf-8", "backslashreplace")
    if value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)


# ---- options --------------------------------------------------------------------------------------------------------


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise ArgumentTypeError(f"{text!r} is not a number of threads; give a whole number from 1")
    return int(text)


def _shards(text: str) -> tuple[int, ...] | str:
    if text == "auto":
        return text
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) for part in parts):
        raise ArgumentTypeError(f"invalid shards value: {text!r}; give auto, or lengths such as 40000,64")
    return tuple(map(int, parts))


def _setting(text: str) -> tuple[str, dict[str, Any]]:
    pattern, _, listed = text.rpartition(":")
    options = dict(entry.partition("=")[::2] for entry in listed.split())
    is_known = options.keys() <= {"chunks", "codec", "shards"}
    if not (pattern.strip() and options and all(options.values()) and is_known):
        example = "'acquisition/*/data: chunks=30000,64 codec=zstd shards=auto'"
        reason = "" if pattern else "; the colon after the pattern is missing"
        if "codec=" in pattern or "level" in text:
            reason = "; codecs have no level here"
        raise ArgumentTypeError(f"invalid setting: {text!r}{reason}; write, for example, {example}")
    return pattern.strip(), {name: value if name == "codec" else _shards(value) for name, value in options.items()}


# One entry for an option of several commands: it has the same name, values and default in all of them.
_SHARED: dict[str, dict[str, Any]] = {
    "--break-lock": {
        "action": "store_true",
        "help": "take over the lock of a writer that has stopped; for one on another machine, make sure of that first",
    },
    "--chunk-key-encoding": {
        "choices": ("default", "v2"),
        "help": "{}: chunk keys such as c/0/0 (default), or 0.0 without folders (v2), which "
        "keeps deep files within DANDI's limit",
    },
    "--chunks": {
        "choices": ("keep",),
        "help": "HDF5 to Zarr: keep the chunk shape of each dataset (default: chunks of less than 64 KiB are joined)",
    },
    "--codec": {
        "choices": ("keep", *CODECS),
        "default": "keep",
        "help": "HDF5 to Zarr: keep the chunks of large datasets, or compress them again (default: %(default)s)",
    },
    "--external-links": {
        "choices": ("follow", "within", "never"),
        "help": "which other files may be read: any, those in the folder of the file and below, or none (default: any "
        "from a local file, but raw data files of HDF5 in its folder only; its folder from a remote file)",
    },
    "--jobs": {"form": "-j --jobs N", "type": _number, "help": "number of threads (default: one per core)"},
    "--limit": {
        "form": "--limit N",
        "type": int,
        "default": 100,
        "help": "print at most N {}; 0 prints all (default: %(default)s)",
    },
    "--no-plug-in-codecs": {
        "action": "store_true",
        "help": "read no chunks with codecs of other installed packages; for files that you do not trust",
    },
    "--nczarr": {"action": "store_true", "help": "to Zarr format 2: let netcdf-c open the file as NCZarr"},
    "--set": {
        "type": _setting,
        "action": "append",
        "dest": "settings",
        "metavar": "PATTERN:...",
        "help": "store the datasets whose path matches in another way: 'acquisition/*/data: chunks=30000,64 codec=zstd "
        "shards=auto'; * stands for letters of a name, ** for any groups; can be given several times",
    },
    "--shards": {
        "type": _shards,
        "metavar": "auto|N,...",
        "help": "to Zarr format 3: combine the chunks of arrays of 64 MiB and more into shards of a suitable size "
        "(auto), or those of arrays with as many axes into shards of these lengths",
    },
    "--storage-option": {
        "form": "-O --storage-option NAME=VALUE",
        "action": "append",
        "default": [],
        "help": "an option for URLs, such as anon=true or endpoint_url=http://host:9000; can be given several times",
    },
    "--zarr-format": {
        "type": lambda text: int(text) if text.isdecimal() else text,
        "choices": (2, 3, "both"),
        "help": "{}",
    },
}
"""Options that several commands have; ``{}`` stands for what a command says about it."""


def argument(form: str, text: str, **settings: Any) -> Part:
    """Return an argument of a ``form`` such as ``-o --output FOLDER`` or ``path PATH``, the value last in capitals."""
    flags = form.split()
    if flags[-1].isupper():
        settings["metavar"] = flags.pop()
    return lambda parser: parser.add_argument(*flags, help=text, **settings)


def shared(option: str, text: str = "") -> Part:
    """Return an option that several commands have."""
    settings = {"form": option, **_SHARED[option]}
    return argument(text=settings.pop("help").format(text), **settings)


def flag(form: str, text: str) -> Part:
    """Return an option without a value."""
    return argument(form, text, action="store_true")


TRUST = (shared("--external-links"), shared("--no-plug-in-codecs"))
"""The options of a command that reads a file, for one that the user does not trust."""

STORING = tuple(map(shared, ("--codec", "--chunks", "--shards", "--set")))
"""The options of a command that plans how datasets are stored."""


def group(title: str, *parts: Part) -> Part:
    """Return arguments that the help shows under a title."""

    def add(parser: ArgumentParser) -> None:
        inner = parser.add_argument_group(title) if title else parser.add_mutually_exclusive_group()
        for part in parts:
            part(inner)

    return add


exclusive = partial(group, "")  # returns options of which one can be given


def output(*, verbose: str = "", json: str) -> list[Part]:
    """Return the last options of a command: ``--verbose``, if it says something about that, and ``--json``."""
    first = [flag("-v --verbose", verbose)] if verbose else []
    return [*first, flag("--json", json), shared("--storage-option")]


def storage_options(arguments: Namespace) -> dict[str, Any]:
    """Return the values of ``--storage-option``."""
    options: dict[str, Any] = {}
    for pair in arguments.storage_option:
        name, mark, text = pair.partition("=")
        if not (name and mark):
            problem = f"the storage option {pair!r} does not have the form NAME=VALUE"
            raise UsageError(problem, remedy="Write -O anon=true, for example.")
        try:
            options[name] = json.loads(text)  # true, 3, {"key": "value"}
        except ValueError:
            options[name] = text
    return options


def for_urls(options: dict[str, Any], files: Iterable[str], batch: Iterable[str]) -> dict[str, Any]:
    """Return storage options for files of a batch, if one is at a URL; where none is, all get them, to refuse them."""
    return options if not options or any(map(is_url, files)) or not any(map(is_url, batch)) else {}


def executor_of(arguments: Namespace) -> Any:
    """Return the ``executor`` for ``--jobs`` and ``--scheduler``."""
    # not every command has --scheduler
    address: str | None = getattr(arguments, "scheduler", None)
    if address is None:
        return arguments.jobs or "threads"
    return address if "://" in address else f"tcp://{address}"


def write_options(arguments: Namespace, **options: Any) -> WriteOptions:
    """Return the options for writing; ``options`` are more fields of `WriteOptions`."""
    names = ("chunk_key_encoding", "durable", "nczarr", "strict_json")  # not every command has all of them
    given = {name: getattr(arguments, name) for name in names if hasattr(arguments, name)}
    return WriteOptions(**{"executor": executor_of(arguments), **given, **options})


def reading(arguments: Namespace) -> dict[str, Any]:
    """Return the arguments of a call that reads a file: its options for URLs, and ``read_options``."""
    limits, missing = Limits(plug_in_codecs=not arguments.no_plug_in_codecs), getattr(arguments, "missing_chunks", None)
    options = ReadOptions(limits=limits, missing_chunks=missing, external_links=arguments.external_links)
    return {"storage_options": storage_options(arguments), "read_options": options}


# ---- many files: each one separately --------------------------------------------------------------------------------


def name_of(path: str) -> str:
    """Return the last part of a path, or of a URL without its query."""
    return PurePosixPath(urlsplit(split_chain(path)[1]).path).name if is_url(path) else Path(path).name


@contextmanager
def grouped_warnings(arguments: Namespace) -> Iterator[list[str]]:
    """Show the warnings of the block at its end, those that are alike in one line; yield the list of all of them."""
    # a file with 1,000 datasets of one kind has 1,000 warnings, and the one that matters would scroll away
    messages: list[str] = []
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: messages.append(str(message))
        try:
            yield messages
        finally:
            distinct = dict.fromkeys(messages)
            for text in finding_lines(distinct, str, lambda text: _PATH.sub("", text), form_of(arguments)):
                complain(text, is_warning=True)


class PostponedError(Exception):
    """The work on a file waits until the other files are done."""


def with_settings(
    arguments: Namespace, count: int, work: Callable[[str, Progress, Any], T]
) -> Callable[[str, Progress], T]:
    """Return the work on one of ``count`` files, which gets the settings of ``--set`` that match in the file."""
    # a file in which a pattern has no match waits for one that has: a mistyped pattern converts nothing
    from hdmf_zarr_backend.encoding.layout import NoMatchError  # on use: NumPy is slow to import

    matched: set[str] = set()
    waiting: dict[str, NoMatchError] = {}

    def run(path: str, progress: Progress) -> T:
        without = waiting[path].patterns if path in waiting else frozenset()
        if without - matched:
            raise waiting[path]
        with warnings.catch_warnings(action="always", category=UserWarning):  # Python shows one once
            for pattern in sorted(without):
                warn(f"{path}: no dataset matches {pattern!r}")
        settings = [each for each in arguments.settings or () if each[0] not in without]
        patterns = {pattern for pattern, _ in settings}
        try:
            result = work(path, progress, settings or None)
        except NoMatchError as error:
            matched.update(patterns - error.patterns)
            if count == 1 or path in waiting:
                raise
            waiting[path] = error
            raise PostponedError from error
        matched.update(patterns)
        return result

    return run


# a folder with one of these is one file, whatever its name: hdmf-zarr writes to any name
_ZARR_MARKS = (".zgroup", ".zmetadata", "zarr.json")


def is_zarr(folder: str) -> bool:
    """Return whether a folder is a Zarr file."""
    return any(os.path.lexists(os.path.join(folder, name)) for name in _ZARR_MARKS)


def is_folder_of_files(path: str) -> bool:
    """Return whether a path is a folder that is not a Zarr file."""
    # one with the name of a file is a Zarr file that has lost the document of its root
    is_named = path.rstrip("/").endswith((*ZARR_SUFFIXES, *HDF5_SUFFIXES))
    return not is_url(path) and os.path.isdir(path) and not is_named and not is_zarr(path)


def files(arguments: Namespace, *kinds: FileKind, sources: list[str] | None = None) -> list[str]:
    """Return the files that the paths mean: of a folder those of these kinds; of ``sources`` of the first it has."""
    # without files: the folder, which may be a damaged file. Folders in it are not searched, of which a warning tells
    given, chosen = set(map(os.path.abspath, arguments.paths)), []
    arguments.unsearched = []
    for path in arguments.paths if sources is None else sources:
        if not is_folder_of_files(path):
            chosen.append(path)
            continue
        entries = [os.path.join(path, name) for name in sorted(os.listdir(path)) if not name.startswith(".")]
        folders = {entry for entry in entries if os.path.isdir(entry)}
        known: dict[str, FileKind] = {entry: "Zarr" for entry in entries if entry.endswith(ZARR_SUFFIXES)}
        known |= {entry: "Zarr" if entry in folders else "HDF5" for entry in entries if entry.endswith(HDF5_SUFFIXES)}
        others = sorted(each for each in folders - known.keys() if os.path.abspath(each) not in given)
        if others:
            were = "was" if len(others) == 1 else "were"
            advice = f"give the paths of folders too, such as {others[0]}"
            complain(f"{path}: {counted(len(others), 'folder')} in it {were} not searched; {advice}", is_warning=True)
        arguments.unsearched += others
        present = [kind for kind in kinds if kind in known.values()][: None if sources is None else 1]
        chosen += [entry for entry in entries if known.get(entry) in present] or [path]
    return chosen


def failure_of(arguments: Namespace, error: ZarrBackendError | OSError, source: str) -> tuple[str, str]:
    """Report an error about a file; return its text, and the problem alone, without file and advice."""
    if isinstance(error, NotZarrError) and is_folder_of_files(source):
        names = ", ".join((*ZARR_SUFFIXES, *HDF5_SUFFIXES))
        remedy = f"The names of files in a folder end in {names}; give the path of any other file."
        error = UsageError(f"the folder has no files to {arguments.command.name}", remedy=remedy)
    if isinstance(error, ZarrBackendError):
        if error.store is None or error.store == os.path.abspath(source):
            error.store = source  # as it was typed
        text, problem = error.cli_text(), error.problem
    else:
        text, problem = str(error), error.strerror or str(error)
    shown = without_secrets(source)
    complain(text if shown in text else f"{shown}: {text}")
    return text, problem


def each_file(
    arguments: Namespace,
    paths: Sequence[str],
    work: Callable[[str, Progress], T],
    show: Callable[[str, T], None],
    *,
    labels: tuple[str, str] | None = None,
    as_json: Callable[[T], dict[str, Any]],
    found: Callable[[T], str] = lambda _: "",
    is_skipped: Callable[[T], bool] = lambda _: False,
    about: Callable[[str], dict[str, Any]] = lambda _: {},
) -> Exit:
    """Do the same work with each file, and write the JSON of all or the totals of several, also after Ctrl-C."""
    documents: list[dict[str, Any]] = []
    bad: list[tuple[str, str]] = []
    failed: dict[str, str] = {}
    code, skipped, count, began, queue = Exit.OK, 0, len(paths), time.time(), list(paths)
    unsearched = arguments.unsearched if getattr(arguments, "strict", False) else []
    for path in queue:
        document: dict[str, Any] = {"source": path, "error": None}
        results: list[T] = []
        # of many files, the name is shown before the bar, which a small file never gets
        batch = Batch(len(documents) + 1, count, began) if count > 1 else None
        label = name_of(path) if batch is None else f"{batch.position}/{count} {name_of(path)}"
        with grouped_warnings(arguments) as warned:
            try:
                progress = terminal_progress(label, batch)
                try:
                    results.append(work(path, progress))
                finally:
                    progress.finish()  # so that a bar does not share its line with a message
            except PostponedError:
                warned.clear()
                queue.append(path)
                continue
            except (ZarrBackendError, OSError) as error:
                document["error"], failed[path] = failure_of(arguments, error, path)
            except KeyboardInterrupt as stop:
                # what is interrupted adds a note on what it leaves, such as how to continue a conversion
                failed[path] = document["state"] = "interrupted"
                document["error"] = ". ".join(["interrupted", *getattr(stop, "__notes__", [])])
                complain(document["error"])
                code = Exit.INTERRUPTED
                queue.clear()  # which ends the loop
        for result in results:
            bad += [(what, path)] if (what := found(result)) else []
            skipped += is_skipped(result)
            if arguments.json:
                document |= as_json(result)
            else:
                show(path, result)
        documents.append(document | {"source": path, **about(path), "warnings": warned})
    if arguments.json:
        left = [{"source": path, "error": "this folder was not searched", "warnings": []} for path in unsearched]
        print_json(documents + left)
    elif (count > 1 or unsearched) and labels is not None:
        done = len(documents) - len(bad) - len(failed) - skipped
        print(f"{done} of {count} files {labels[0]}{f', {skipped} skipped' if skipped else ''}")
        lines = [f"  {what}: {path}" for what, path in [*bad, *(("not searched", path) for path in unsearched)]]
        for line in [*lines, *(f"  {labels[1]}: {path}: {reason}" for path, reason in failed.items())]:
            say(line)
    return code or (Exit.FAILED if failed else Exit.FOUND if bad or unsearched else Exit.OK)
