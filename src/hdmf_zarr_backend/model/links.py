"""`Resolver`: follows links and references to the nodes that they lead to. Nothing else in the package follows links.

A source names the file itself (``"."``, or one of its former names), or another file relative to the store. hdmf-zarr
0.10 named other files from the folder of the store instead, so this is the second choice in files without the version
of this package. A path may lead through links, and these into other files; the number of links from one to the next and
the number of files are limited, and circles are found.

Source: hdmf-zarr storage specification, "Links"; docs/format, "Links"; what hdmf-zarr 0.1 to 0.13 wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from hdmf_zarr_backend.errors import LinkRefusedError, ReferenceTargetError, StoreNotFoundError
from hdmf_zarr_backend.model.link_sources import OWN_SOURCES, resolve_source, sibling_source
from hdmf_zarr_backend.model.nodes import Group, Hierarchy, Node, absolute, relative


class LinkedFile(Protocol):
    """What the resolver needs to know of a file at an absolute path or URL."""

    location: str
    hierarchy: Hierarchy

    @property
    def former_names(self) -> frozenset[str]:
        """Sources other than ``"."`` that mean the file itself."""

    @property
    def names_siblings(self) -> bool:
        """Whether a source may be relative to the folder of the file."""

    def link_in(self, group: Group[Any], name: str) -> tuple[str, str] | None:
        """Return source and path of the target of a link; None if the group has no link with this name."""


F = TypeVar("F", bound=LinkedFile)


class CircularLinkError(ReferenceTargetError):
    """Links form a circle."""


@dataclass(slots=True, eq=False, repr=False)
class Resolver(Generic[F]):
    """Finds the targets of links and references of one file, and of the files that it leads to, each opened once."""

    main: F
    open_other: Callable[[str], F]
    _: KW_ONLY
    may_follow: Callable[[str, str], None]
    may_exist: Callable[[str], bool]
    check_limit: Callable[[str, int, str], None]
    files: dict[str, F] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.files[self.main.location] = self.main

    def find(self, file: F, source: str, path: str) -> tuple[F, str, Node]:
        """Return file, path and node that a link or reference in ``file`` leads to."""
        target, _, path, node = self._follow(self.file, file, source, path)
        assert target is not None and node is not None
        return target, path, node

    def find_inside(self, source: str, path: str) -> tuple[str, str, Node | None]:
        """Return source, path and node that a reference in the main file leads to, without opening other files.

        The node is None, and the source that of the other file, if it leads out of the file. Raises the errors of
        `find`.
        """

        def enter(file: F, source: str) -> F | None:
            return file if self.locate(file, source) == file.location else None

        _, source, path, node = self._follow(enter, self.main, source, path)
        return source, path, node

    def _follow(
        self, enter: Callable[[F, str], F | None], file: F, source: str, path: str
    ) -> tuple[F | None, str, str, Node | None]:
        """Follow links until a node, or until ``enter``, which opens the file that a source means, returns None."""
        path = relative(path)
        seen: set[tuple[str, str]] = set()
        while True:
            target = enter(file, source)
            if target is None:
                return None, source, path, None
            if (target.location, path) in seen:
                raise CircularLinkError(
                    "the links form a circle", store=target.location, path=absolute(path), remedy="Remove one of them."
                )
            self.check_limit("max_links", len(seen), f"{len(seen)} links lead from one to the next")
            seen.add((target.location, path))
            node, link, rest = _walk(target, path)
            if node is not None:
                return target, source, path, node
            if link is None:
                raise nothing_at(target.location, path)
            file, source, path = target, link[0], relative(f"{link[1]}/{rest}")

    def file(self, origin: F, source: str) -> F:
        """Return the file that a source in the file ``origin`` means; raises the errors of `find` for a file."""
        refused: LinkRefusedError | None = None
        for location in self._candidates(origin, source):
            if location in self.files:
                return self.files[location]
            try:
                self.may_follow(location, origin.location)
            except LinkRefusedError as error:
                refused = refused or error
                continue
            if not self.may_exist(location):
                continue
            count = len(self.files)
            self.check_limit("max_files", count, f"links lead to {count} other files")
            try:
                self.files[location] = self.open_other(location)
            except StoreNotFoundError:
                continue  # only a server knows what it has
            return self.files[location]
        if refused is not None:
            raise refused
        problem, remedy = f"the file {source!r} does not exist", "Put the linked file back beside this one."
        raise ReferenceTargetError(problem, store=origin.location, remedy=remedy)

    def locate(self, origin: F, source: str) -> str:
        """Return the location that a source means, without opening it; also that of a file that does not exist."""
        candidates = self._candidates(origin, source)
        there = (location for location in candidates if location in self.files or self.may_exist(location))
        return next(there, candidates[0])

    @staticmethod
    def _candidates(origin: F, source: str) -> list[str]:
        """Return the locations that a source may mean, the most probable one first."""
        if source in OWN_SOURCES or source in origin.former_names:
            return [origin.location]
        location = resolve_source(source, origin.location)
        sibling = sibling_source(source, origin.location) if origin.names_siblings else location
        return list(dict.fromkeys((location, sibling)))


def nothing_at(location: str, path: str) -> ReferenceTargetError:
    """Return the error for a path in a file that leads to no node."""
    return ReferenceTargetError("there is no such group or dataset", store=location, path=absolute(path))


def _walk(file: LinkedFile, path: str) -> tuple[Node | None, tuple[str, str] | None, str]:
    """Return the node at a path; or the first link on the way (None if there is none), and the path below it."""
    node: Node = file.hierarchy.root
    parts = path.split("/") if path else []
    for position, part in enumerate(parts):
        if not isinstance(node, Group):
            return None, None, ""
        if part in node.members:
            node = node.members[part]
            continue
        return None, file.link_in(node, part), "/".join(parts[position + 1 :])
    return node, None, ""
