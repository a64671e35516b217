"""A command for many files: each on its own, a bad one is told and the others go on, and the sum comes last."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from hdmf_zarr_backend.cli.command import Exit, complain, print_json
from hdmf_zarr_backend.errors import ZarrBackendError
from hdmf_zarr_backend.progress import Progress, terminal_progress

T = TypeVar("T")


@dataclass(slots=True)
class Outcome(Generic[T]):
    """What became of one file: a result, or what was wrong.

    Attributes
    ----------
    source : str
        The file, as it was given.
    result : object, optional
        What the work has returned.
    error : str, optional
        Why there is no result.
    """

    source: str
    result: T | None = None
    error: str | None = None


@contextmanager
def shown_progress(label: str) -> Iterator[Progress]:
    """Give a bar, and take it away whatever happens: what is left of it would share its line with a message."""
    progress = terminal_progress(label)
    try:
        yield progress
    finally:
        progress.finish()


def failure_of(error: ZarrBackendError | OSError, source: str, arguments: Namespace) -> str:
    """Tell that a file could not be done, with its name; return the error in the words of the command line."""
    from hdmf_zarr_backend.cli.wording import told  # on use: most files are good

    text = told(error, arguments.command)
    complain(text if source in text else f"{source}: {text}")
    return text


def each_file(arguments: Namespace, work: Callable[[str], T], show: Callable[[str, T], None]) -> list[Outcome[T]]:
    """Do the same with each of ``arguments.paths``.

    Parameters
    ----------
    arguments : Namespace
        With ``paths``, ``json`` and ``command``.
    work : callable
        Takes a path and returns a result. An error of it is told, and the other files are done all the same.
    show : callable
        Prints the result of a path, as soon as it is there; not called where JSON is asked for.
    """
    outcomes: list[Outcome[T]] = []
    for path in arguments.paths:
        try:
            result = work(path)
        except (ZarrBackendError, OSError) as error:
            outcomes.append(Outcome(path, error=failure_of(error, path, arguments)))
            continue
        outcomes.append(Outcome(path, result))
        if not arguments.json:
            show(path, result)
    return outcomes


def finish(
    arguments: Namespace,
    outcomes: list[Outcome[T]],
    *,
    done: str,
    failed: str,
    as_json: Callable[[T], dict[str, Any]],
    is_good: Callable[[T], bool] = lambda _: True,
) -> Exit:
    """Write the JSON of all files, or the sum of several; return the exit code.

    Parameters
    ----------
    arguments : Namespace
        With ``json``.
    outcomes : list of Outcome
        Of `each_file`.
    done, failed : str
        What a good file is, and what became of one that raised an error: "sound", "not looked at".
    as_json : callable
        Gives what JSON says of a result.
    is_good : callable
        Whether nothing was found.
    """
    failures = [outcome.source for outcome in outcomes if outcome.error is not None]
    bad = [outcome.source for outcome in outcomes if outcome.result is not None and not is_good(outcome.result)]
    if arguments.json:
        print_json([_document(outcome, as_json) for outcome in outcomes])
    elif len(outcomes) > 1:
        print(f"{len(outcomes) - len(bad) - len(failures)} of {len(outcomes)} files {done}")
        for label, sources in ((f"not {done}", bad), (failed, failures)):
            for source in sources:
                print(f"  {label}: {source}")
    if failures:
        return Exit.FAILED
    return Exit.FOUND if bad else Exit.OK


def _document(outcome: Outcome[T], as_json: Callable[[T], dict[str, Any]]) -> dict[str, Any]:
    said = {"source": outcome.source, "error": outcome.error}
    return said if outcome.result is None else {**said, **as_json(outcome.result)}
