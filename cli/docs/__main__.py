"""Writes the generated documents: `python -m flowdiag.cli.docs`."""

from flowdiag.cli.docs.generate import main

raise SystemExit(main())
