"""`python -m flowdiag`: the command, where its script is not on the path."""

from flowdiag.cli.app import main

if __name__ == "__main__":
    raise SystemExit(main())
