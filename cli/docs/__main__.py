"""Writes the generated documents: `python -m flowdiag.cli.docs`."""

import sys

from flowdiag.cli.docs.generate import main

raise SystemExit(main(sys.argv[1:]))
