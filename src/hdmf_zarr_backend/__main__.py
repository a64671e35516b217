"""`python -m hdmf_zarr_backend`: the command line, where `zarrio` is not on the path."""

import sys

from hdmf_zarr_backend.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
