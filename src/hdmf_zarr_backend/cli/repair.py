"""`zarrio repair`: mend what can be mended with no loss."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from hdmf_zarr_backend.cli.command import Command, Exit, finding_lines, print_json
from hdmf_zarr_backend.cli.options import add_storage_option, add_verbose_option, storage_options


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a Zarr file, a path or a URL")
    parser.add_argument(
        "--drop-links", action="store_true", help="remove links that lead to nothing, in a circle, or that are damaged"
    )
    parser.add_argument(
        "--break-lock",
        action="store_true",
        help="take the lock of the file from a writer that is gone, or cannot be asked since it is on another machine",
    )
    add_verbose_option(parser)
    parser.add_argument("--json", action="store_true", help="print what was done, and what is left, as a JSON document")
    add_storage_option(parser)


def _run(arguments: Namespace) -> Exit:
    # here and not above: NumPy takes longer to start than the rest of the command line
    from hdmf_zarr_backend.cli.wording import problem_document, problem_line
    from hdmf_zarr_backend.verification.repairs import repair

    repairs = repair(
        arguments.path,
        drop_links=arguments.drop_links,
        break_lock=arguments.break_lock,
        storage_options=storage_options(arguments),
    )
    if arguments.json:
        left = [problem_document(problem, arguments.command) for problem in repairs.left]
        print_json({"source": arguments.path, "done": repairs.done, "left": left})
    else:
        for line in repairs.done:
            print(line)
        for line in finding_lines(
            repairs.left,
            lambda problem: f"left: {problem_line(problem, arguments.command)}",
            lambda problem: f"{problem.kind} {problem.message}",
            verbose=arguments.verbose,
        ):
            print(line)
        if not repairs.done and not repairs.left:
            print("nothing to repair")
    return Exit.FOUND if repairs.left else Exit.OK


COMMAND = Command(
    name="repair",
    summary="mend what can be mended with no loss",
    description=(
        "Undo a change that was interrupted, or finish it where it had come to its end. Make the consolidated\n"
        "document anew where it is not true. Documents that are gone, and scalars whose chunk is gone or damaged, are\n"
        "written back from the consolidated document if it has them; while anything else is gone or damaged, that\n"
        "document stays as it is. No chunk and no document of a node is deleted but those that an interrupted change\n"
        "had made. Exits with 1 if damage is left."
    ),
    examples="""\
  zarrio repair session.nwb.zarr
  zarrio repair session.nwb.zarr --drop-links
""",
    configure=_configure,
    run=_run,
)
