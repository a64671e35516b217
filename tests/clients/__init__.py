"""The programs that NWB users run, each in its own environment beside this package; `nox -s clients` runs them."""
