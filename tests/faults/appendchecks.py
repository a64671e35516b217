"""What has to hold for a file after an append to it was stopped, whatever stopped it and wherever the file is."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from hdmf_zarr_backend import ZarrIO, repair, verify
from hdmf_zarr_backend.errors import FormatsDifferWarning, IncompleteStoreError, JournalWarning
from tests.faults.appending import said

_OVERWRITTEN = "/numbers/growing"
_OVERWRITING = {"values": -1.0, "smaller": 0.0}
"""What is put over values, or is seen where an array is cut: chunk by chunk, as the documentation says."""


class Checks:
    """What has to hold after an append that was stopped.

    Attributes
    ----------
    before, after : dict
        What the file says before the append and after it.
    seen : list of str
        ``"before"``, ``"after"``, ``"changing"``: how the stopped files looked to a reader.
    """

    def __init__(self, variant: str, before: Any, after: Any, **options: Any) -> None:
        self.variant = variant
        self.options = options
        self.before, self.after = said(before, **options), said(after, **options)
        assert self.before != self.after
        self.seen: list[str] = []

    def state(self, found: dict[str, Any]) -> str:
        """Return whether a file is as before or as after, all of it."""
        assert found in (self.before, self.after)
        return "before" if found == self.before else "after"

    def first_reader(self, place: Any, *, is_killed: bool = False) -> None:
        """Check what a reader finds after the writer has failed, or was killed."""
        is_pending = pending_journal(place, **self.options)
        try:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                warnings.simplefilter("ignore", FormatsDifferWarning)  # between two puts of a commit
                found = said(place, **self.options)
        except IncompleteStoreError as error:
            assert self.variant.startswith(("wider", "larger"))
            assert "zarrio repair" in error.remedy
            self.seen.append("changing")
            return
        assert {warning.category for warning in warned} <= {JournalWarning}
        # a writer in this process may still undo its change; looking for a journal in a bucket takes a request
        is_old = found != self.after  # else only the end of the journal is left
        assert bool(warned) == (is_pending and is_killed and is_old and isinstance(place, Path))
        if self.variant in _OVERWRITING and found[_OVERWRITTEN] != self.after[_OVERWRITTEN]:
            old, new = self.before[_OVERWRITTEN], found.pop(_OVERWRITTEN)
            assert set(new[1]) <= {*old[1], _OVERWRITING[self.variant]}
            assert len(new[1]) == len(old[1])
            found[_OVERWRITTEN] = old
        self.seen.append(self.state(found))

    def repaired(self, place: Any, *, by_opening: bool) -> str:
        """Repair a file, and return whether it is as before or as after."""
        is_pending = pending_journal(place, **self.options)
        # the lock of a file on a server stays where its writer died
        options = self.options if isinstance(place, Path) else {**self.options, "break_lock": True}
        if by_opening:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                warnings.simplefilter("ignore", FormatsDifferWarning)
                ZarrIO(place, "a", **options).close()
            assert [warning.category for warning in told] == [JournalWarning] * is_pending
        else:
            done = repair(place, **options)
            assert len(done.done) == is_pending
            assert done.left == []
        assert not pending_journal(place, **self.options)
        state = self.state(said(place, **self.options))
        assert self.state(said(place, "r-", **self.options)) == state
        report = verify(place, **self.options)
        assert report.is_sound, report.problems
        return state


def pending_journal(place: Any, **options: Any) -> bool:
    """Tell whether a change of a file has not come to its end."""
    return "change-interrupted" in {problem.kind for problem in verify(place, "structure", **options).problems}
