"""What the fields of containers said when they were read, so that a change that cannot be written is not lost silently.

hdmf keeps the builder of a dataset without a type that was read, whatever its container says by now: a new value of
such a field would be dropped. Attributes are built anew, and written.

Source: ``hdmf.build.ObjectMapper``, which retrieves existing dataset builders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

from hdmf.container import AbstractContainer
from hdmf.spec import GroupSpec, LinkSpec

from hdmf_zarr_backend.errors import ConflictError, UsageError
from hdmf_zarr_backend.write.samevalues import is_same, shown, stored_array
from hdmf_zarr_backend.write.targets import builder_path


class KnownFields:
    """The fields of the containers of one open file, as they are on disk."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, dict[str, Any]]] = {}

    def note(self, root: Any, *, anew: bool = False) -> None:
        """Note the fields of all containers below ``root``; ``anew``: of those that are known as well."""
        if id(root) in self._known and not anew:
            return
        stack = [root]
        while stack:
            here = stack.pop()
            stack.extend(here.children)
            self._known[id(here)] = (here, dict(here.fields))

    def check(self, manager: Any, location: str, *, is_written: Callable[[Any], bool]) -> None:
        """Refuse new values of datasets that are on disk.

        Raises
        ------
        ConflictError
            Naming the dataset and both values.
        """
        for container, before in self._known.values():
            fields = container.fields
            changed = {name for name, value in fields.items() if value is not None and value is not before.get(name)}
            builder = manager.get_builder(container) if changed else None
            if builder is None or not hasattr(builder, "datasets"):
                continue
            mapper = manager.type_map.get_map(container)
            for spec, stored in _untyped_datasets(mapper.spec, builder):
                name = mapper.get_attribute(spec)
                if name not in changed or not is_written(stored) or _is_same(fields[name], before.get(name)):
                    continue
                raise ConflictError(
                    f"the dataset holds {shown(stored.data)} and {shown(fields[name])} is to be written",
                    store=location,
                    path=builder_path(stored),
                    remedy="Change the values in place (dataset[...] = values), or export to a new file.",
                )


def check_origin(root: Any, manager: Any, location: str) -> None:
    """Refuse containers of other files that hdmf cannot build for this one.

    Parameters
    ----------
    root : Container
        What is to be written.
    manager : BuildManager
        Builds it. What it has built or read for another file is linked to, and is not refused.
    location : str
        The file.

    Raises
    ------
    UsageError
        Naming the container and its file.
    """
    stack = [root]
    while stack:
        here = stack.pop()
        origin = here.container_source
        if origin is None or origin == location:
            stack += [*here.children, *_linked(here, manager)]
        elif manager.get_builder(here) is None:
            what = f"{type(here).__name__} {here.name!r}"
            remedy = (
                "Use export to copy a file: read it and pass its io as src_io, and the container if it was changed."
            )
            if here is not root:
                remedy = "To write a link, make this io with the manager of the io that has read it; or make a new one."
            problem = f"the {what} was read from or written to another file, {origin!r}, and cannot be written here"
            raise UsageError(problem, store=location, remedy=remedy)


def _linked(container: Any, manager: Any) -> Iterator[Any]:
    """Yield the containers of other places that a container is to have a link to."""
    for name, value in container.fields.items():
        if isinstance(value, dict):
            yield from (
                member
                for member in value.values()
                if isinstance(member, AbstractContainer) and member.parent is not container
            )
        elif isinstance(value, AbstractContainer) and value.parent is not container:
            spec = manager.type_map.get_map(container).get_attr_spec(name)
            if isinstance(spec, (LinkSpec, GroupSpec)):  # not the series whose timestamps another one shares
                yield value


def _untyped_datasets(spec: Any, builder: Any) -> Iterator[tuple[Any, Any]]:
    """Yield specification and builder of the datasets without a type that a group has, in groups without one too."""
    for dataset in spec.datasets:
        if _is_untyped(dataset) and builder.datasets.get(dataset.name) is not None:
            yield dataset, builder.datasets[dataset.name]
    for group in spec.groups:
        if _is_untyped(group) and group.name in builder.groups:
            yield from _untyped_datasets(group, builder.groups[group.name])


def _is_untyped(spec: Any) -> bool:
    return spec.data_type_def is None and spec.data_type_inc is None and spec.name is not None


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, date) and isinstance(other, date):
        return one == other
    return is_same(stored_array(one), stored_array(other))
