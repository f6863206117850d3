"""Renames hosts, users, jobs, tasks, queries, applications and folders of recordings to unusual spellings,
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


@dataclass(frozen=True)
class FlinkSpelling(Spelling):
    """Replacements for the names in recordings of Flink, such as `worker-2.flink.example` and `/var/lib/flink`.

    Args:
        host: the name of a TaskManager's host, with `{}` for its number.
        script: the host of the JobManager.
        others: further replacements by recorded name: those of the job and its tasks.
    """

    def of(self, text: str) -> str:
        """Replace the recorded names in a text or a file name, also in metric scopes."""
        for domain, new in (
            (".flink.example", ".zurx.internal"),
            ("_flink_example", "_zurx_internal"),
        ):
            text = text.replace(domain, new)
        changes = {
            r"\bworker-(\d)(?=\b|_zurx)": self.host.format(r"\1"),
            r"\bjobmanager(?=[._]zurx)": self.script,
            r"(user\.name=|Current user: |/home/)flink\b": rf"\g<1>{self.user}",
            "/var/lib/flink": self.folder,
            **{rf"(?<![\w.-]){old}(?![\w-])": new for old, new in self.others.items()},
        }
        for old, new in changes.items():
            text = re.sub(old, new, text)
        return text

    @property
    def words(self) -> list[str]:
        """The words in the replacements, and the domain of the hosts."""
        return [*super().words, "zurx"]


RENAMED_FLINK: Final = {
    "flink/1.20.5/hot-key": FlinkSpelling(
        "wrkx-{}",
        "svcstreamx",
        "/mnt/acmelake/Vol7",
        "jmxhost",
        {
            "enrich": "Anreichernx",
            "deliver": "auslief_x",
            "orders": "Bestellx",
            "hot-key": "billx v2",
        },
    ),
    "live/2.3.0/hang": FlinkSpelling(
        "TMxnode{}",
        "m.weberx",
        "/srvx/etl Aktenx",
        "JMxhost",
        {"enrich": "Zulu-Ölhandel", "deliver": "Snkxy", "orders": "Qxy Orders", "hang": "Kundex"},
    ),
}


def report_on(name: str, spelling: Spelling, folder: Path, spark: SparkSession) -> Report:
    """Diagnose a recording under other names."""
    for path in sorted(unpacked(ROOT / name).rglob("*")):
        if path.is_file() and path.name != "truth.json":
            target = folder / spelling.of(str(path.relative_to(unpacked(ROOT / name))))
            target = target.with_suffix(path.suffix.replace(".zstd", ".inprogress"))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(spelling.of("\n".join(lines_of(path)) + "\n"))
    topics = tuple(map(topic, names_of(EVERYTHING, {"spark" if name in RENAMED else "flink"})))
    options = Options(everything=True, privacy=Privacy(redact=True))
    return diagnose(topics, discover([str(folder)]), lambda: spark, options)


@pytest.mark.parametrize("name", [*RENAMED, *RENAMED_FLINK])
def test_no_format_contains_a_name_of_an_unusual_spelling(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    spelling = {**RENAMED, **RENAMED_FLINK}[name]
    report = report_on(name, spelling, tmp_path / "input", spark)
    assert report.findings
    for format_, render in RENDERERS.items():
        shown = render(report, Page(width=100)).casefold()
        left = [
            shown[max(0, shown.find(word) - 90) :][:160] for word in spelling.words if word in shown
        ]
        assert left == [], format_
