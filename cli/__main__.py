"""`python -m flowdiag.cli`."""

from flowdiag.cli.process import start

if __name__ == "__main__":
    start()
