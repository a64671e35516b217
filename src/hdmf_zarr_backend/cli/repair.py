"""`zarrio repair`: repairs without loss; `zarrio consolidate`: writes a new consolidated document."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from hdmf_zarr_backend.cli.command import Command, Exit, add, each_file, finding_lines, print_json, say, storage_options
from hdmf_zarr_backend.progress import Progress


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a Zarr file, a path or a URL")
    parser.add_argument(
        "--drop-links", action="store_true", help="remove links that have no target, are circular, or are damaged"
    )
    parser.add_argument(
        "--break-lock",
        action="store_true",
        help="take over the lock of a writer that has stopped, or that may have stopped on another machine",
    )
    add(parser, "--verbose", "print each finding, even if it is similar to others")
    add(parser, "--json", "print what was done, and what is left, as one JSON document")
    add(parser, "--storage-option")


_CHUNKS = (
    "Chunks were not checked; run `zarrio verify` to check them. A damaged chunk must be restored from a copy of the "
    "file, or the source must be converted again."
)


def _run(arguments: Namespace) -> Exit:
    # imported here: NumPy is slow to import
    from hdmf_zarr_backend.checks.repair import repair

    repairs = repair(
        arguments.path,
        drop_links=arguments.drop_links,
        break_lock=arguments.break_lock,
        storage_options=storage_options(arguments),
    )
    if arguments.json:
        left = [problem.as_json() for problem in repairs.left]
        kept = [remark.as_json() for remark in repairs.kept]
        print_json({"source": arguments.path, "done": repairs.done, "left": left, "kept": kept})
    else:
        for line in repairs.done:
            say(line)
        for line in finding_lines(
            repairs.left,
            lambda problem: f"left: {problem}",
            lambda problem: f"{problem.kind} {problem.message}",
            verbose=arguments.verbose,
        ):
            say(line)
        for remark in repairs.kept:
            say(f"remark: {remark}")
        if not repairs.done and not repairs.left:
            print("nothing to repair in the metadata")
        print(_CHUNKS)
    return Exit.FOUND if repairs.left else Exit.OK


REPAIR = Command(
    name="repair",
    usage="PATH [options]",
    summary="repair what can be repaired without loss",
    description=(
        "Repair a file after an interruption or damage:\n\n"
        "  - complete an interrupted change, or undo it if it was not recorded completely\n"
        "  - restore missing documents and scalars from the consolidated document\n"
        "  - replace a wrong consolidated document, unless something else is still damaged\n\n"
        "Chunks and documents are deleted only if they belong to an interrupted change. Chunks are not checked: use\n"
        "`zarrio verify` for that. A damaged chunk cannot be repaired; restore it from a copy of the file, or convert\n"
        "the source again. Damage of the metadata that is left is listed, and the exit code is then 1."
    ),
    examples="""\
  zarrio repair session.nwb.zarr
  zarrio repair session.nwb.zarr --drop-links
""",
    configure=_configure,
    run=_run,
)


# ---- consolidate ----------------------------------------------------------------------------------------------------


def _configure_consolidate(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="Zarr files, paths or URLs")
    parser.add_argument(
        "--forget",
        action="store_true",
        help="drop nodes that only the consolidated document has, because another program deleted them on purpose",
    )
    add(parser, "--json", "print what was done as one JSON document")
    add(parser, "--storage-option")


def _run_consolidate(arguments: Namespace) -> Exit:
    # imported here: NumPy is slow to import
    from hdmf_zarr_backend.checks.repair import consolidate

    options = storage_options(arguments)

    def work(path: str, _: Progress) -> str:
        consolidate(path, forget=arguments.forget, storage_options=options)
        return path

    return each_file(
        arguments,
        work,
        lambda path, _: say(f"{path}: consolidated"),
        labels=("consolidated", "not consolidated"),
        as_json=lambda _: {},
    )


CONSOLIDATE = Command(
    name="consolidate",
    usage="PATH... [options]",
    summary="update the consolidated metadata of Zarr files",
    description=(
        "Write a new consolidated document, with scalars in it, from the metadata documents of the nodes. Run this\n"
        "after another program has changed a file: until then, readers see the file as it was before. A file with an\n"
        "error is reported, and the others follow."
    ),
    examples="""\
  zarrio consolidate session.nwb.zarr
  zarrio consolidate *.nwb.zarr --json
""",
    configure=_configure_consolidate,
    run=_run_consolidate,
)
