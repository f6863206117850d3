"""`python -m flowdiag.cli.docs`: write the generated documents."""

from flowdiag.cli.docs.generate import main

raise SystemExit(main())
