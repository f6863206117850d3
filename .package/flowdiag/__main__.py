"""`python -m flowdiag`: the command, where its script is not on the path."""

from flowdiag.cli.__main__ import start

if __name__ == "__main__":
    start()
