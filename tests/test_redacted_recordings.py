"""Renames hosts, users, queries, applications and folders of recorded scripts to unusual spellings,
and searches all formats of redacted reports for them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.diagnosis import diagnose
from flowdiag.analyses.selection.options import Options, Privacy
from flowdiag.analyses.topic_names import EVERYTHING, names_of
from flowdiag.analyses.topics import topic
from flowdiag.cli.render import RENDERERS
from flowdiag.cli.text.page import Page
from flowdiag.parsers.discover import discover
from tests.archives import unpacked

from .windows import ROOT, lines_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Spelling:
    """Replacements for the recorded names, such as `driver.spark.example`, `spark` and
    `/srv/spark`.

    Args:
        host, user, folder, script: replacements for the recorded values.
        others: further replacements by recorded name, such as those of queries.
    """

    host: str
    user: str
    folder: str
    script: str
    others: Mapping[str, str]

    def of(self, text: str) -> str:
        """Replace the recorded names in a text."""
        changes = {
            r"driver\.spark\.example": self.host,
            r"/srv/spark(?![\w-])": self.folder,
            r"/opt/app/live": self.script,
            r"/srv/home/spark|/srv/home": f"/home/{self.user}",
            r"(acls(?: groups)? to: |permissions: )spark\b": rf"\g<1>{self.user}",
            r'("User":|"user\.name":|"HADOOP_USER_NAME":)"spark"': rf'\g<1>"{self.user}"',
            **{rf"(?<![\w-]){old}(?![\w-])": new for old, new in self.others.items()},
        }
        for old, new in changes.items():
            text = re.sub(old, new, text)
        return text

    @property
    def words(self) -> list[str]:
        """The words in the replacements that are long enough to identify someone."""
        names = [self.host, self.user, self.folder, self.script, *self.others.values()]
        parts = {part for name in names for part in re.split(r"[\W_]+", name.casefold())}
        return sorted(part for part in parts if len(part) > 3 and not part.isdecimal())


RENAMED: Final = {
    "spark-live/4.3.0/live-one-of-two": Spelling(
        "ip-10-4-0-18.zurich-7.compute.internal",
        "m.weber-etl",
        "/mnt/acmelake/Müllerei_prod",
        "/home/m.weber-etl/Aufträge",
        {"amounts": "umsatz_täglich", "archive": "Kunden-Archiv", "two-queries": "ACMEX Billing"},
    ),
    "spark-live/4.3.0/live-worker-killed": Spelling(
        "DRV_Prod7", "svcxstream", "/Volumes/zeta lake", "/dbfs/zetajobs", {}
    ),
    "spark-live/3.5.7/live-code-udf": Spelling(
        "k8sx-drv-0",
        "CORPX\\\\jdoex",
        "/datalake9/yankee.v2",
        "/app/yankeesrc",
        {"enriched": "ZuluLookup", "enrichment": "xray-Ölhandel"},
    ),
}


def report_on(name: str, spelling: Spelling, folder: Path, spark: SparkSession) -> Report:
    """Diagnose a recording under other names."""
    for path in sorted(unpacked(ROOT / name).rglob("*")):
        if path.is_file() and path.name != "truth.json":
            target = folder / path.relative_to(unpacked(ROOT / name)).with_suffix(
                path.suffix.replace(".zstd", ".inprogress")
            )
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(spelling.of("\n".join(lines_of(path)) + "\n"))
    topics = tuple(map(topic, names_of(EVERYTHING, {"spark"})))
    options = Options(everything=True, privacy=Privacy(redact=True))
    return diagnose(topics, discover([str(folder)]), lambda: spark, options)


@pytest.mark.parametrize("name", RENAMED)
def test_no_format_contains_a_name_of_an_unusual_spelling(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    spelling = RENAMED[name]
    report = report_on(name, spelling, tmp_path / "input", spark)
    assert report.findings
    for format_, render in RENDERERS.items():
        shown = render(report, Page(width=100)).casefold()
        left = [
            shown[max(0, shown.find(word) - 90) :][:160] for word in spelling.words if word in shown
        ]
        assert left == [], format_
