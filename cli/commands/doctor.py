"""`flowdiag doctor`."""

from __future__ import annotations

from flowdiag.cli.exit_codes import ExitCode
from flowdiag.cli.options import shared as o
from flowdiag.cli.settings import Listing


def doctor(
    format: o.ListingFormat = Listing.TABLE,
    output: o.TextOutput = None,
) -> int:
    """Check that flowdiag can run here, and show how to fix any problem.

    \b
    Examples:
      flowdiag doctor
      flowdiag doctor --format json | jq '.[] | select(.level == "problem")'

    Checks Python, Spark, Java, the class cache, memory, disk space, extras and proxies, without starting Java.
    The exit code is 2 if a problem keeps flowdiag from running, otherwise 0.
    """
    import msgspec

    from flowdiag.cli.checkup import Level, checks
    from flowdiag.cli.reference.manual import show

    found = list(checks())
    if format is Listing.JSON:
        show(msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n", output)
    else:
        width = max(len(check.name) for check in found)
        lines = []
        for check in found:
            lines.append(f"{check.level:<8} {check.name:<{width}}  {check.text}")
            lines += [f"{'':<8} {'':<{width}}  {check.hint}"] if check.hint else []
        show("\n".join(lines) + "\n", output)
    works = all(check.level is not Level.PROBLEM for check in found)
    return ExitCode.CLEAR if works else ExitCode.USAGE
