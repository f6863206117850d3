"""A redacted document contains no name of the original, in any spelling."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdiag.analyses.report.pseudonyms import pseudonymize


def test_names_are_replaced_consistently() -> None:
    document = {
        "inputs": [{"source": "/srv/logs/jm.log", "reason": "x"}],
        "findings": [
            {
                "code": "CP101",
                "name": "checkpoint-expired",
                "severity": "warning",
                "subject": {
                    "kind": "task",
                    "task": "warning",
                    "host": "worker-3",
                    "job_name": "orders",
                },
                "title": "task warning of job orders on worker-3 writes hdfs://nn.corp/user/ann/x",
                "evidence": [
                    {"source": "/srv/logs/jm.log", "excerpt": "10.0.0.7 /home/ann/app.jar"}
                ],
                "measurements": [{"name": "late-ratio", "value": 3, "population": "worker-3"}],
            }
        ],
        "data": {"jobs": [{"name": "orders", "verdict": "degraded"}]},
    }
    redacted = pseudonymize(document)
    finding = redacted["findings"][0]
    assert finding["code"] == "CP101" and finding["name"] == "checkpoint-expired"
    assert finding["severity"] == "warning"  # the keyword of the report contract, not the task
    assert finding["subject"] == {
        "kind": "task",
        "task": "task-1",
        "host": "host-1",
        "job_name": "job-1",
    }
    assert finding["title"] == "task task-1 of job job-1 on host-1 writes url-1"
    assert redacted["data"]["jobs"][0]["name"] == "job-1"
    assert redacted["inputs"][0]["source"] == finding["evidence"][0]["source"] == "input-1"
    assert "ann" not in finding["evidence"][0]["excerpt"]
    assert "10.0.0.7" not in finding["evidence"][0]["excerpt"]
    assert finding["measurements"][0]["population"] == "host-1"


# Spellings of a name in metric scopes, environment variables, URLs and thread names.
SPELLINGS: Final[dict[str, Callable[[str], str]]] = {
    "as it is": str,
    "metric scope": lambda name: re.sub(r"[.-]", "_", name),
    "Prometheus label": lambda name: re.sub(r"\W", "_", name),
    "upper case": str.upper,
    "thread name": lambda name: f"flink-pekko-{name}-dispatcher-3",
    "quoted": lambda name: f"'{name}'",
    "cut": lambda name: name[:-2] + "…",
}
HOSTS: Final = st.from_regex(
    r"(?:ip-|kfk|wrk-)[0-9]{2}[b-df-hj-np-tv-z]{2}\.[a-z]{4}\.zqx", fullmatch=True
)
# Never "zqx", which is the end of every host: three letters before a cut are too few to find a name.
NAMES: Final = st.from_regex(r"Zq[a-wyz][a-z]{2,7}(?:[ .-][A-Z][a-z]{4,8}x){0,2}", fullmatch=True)


@given(st.data(), HOSTS, NAMES, NAMES, NAMES)
def test_no_spelling_of_a_name_is_left(
    data: st.DataObject, host: str, job: str, task: str, user: str
) -> None:
    user = user.replace(" ", ".")
    spelt = [
        data.draw(st.sampled_from(list(SPELLINGS.values())))(name)
        for name in (host, job, task, user)
    ]
    label = host.partition(".")[0]
    document = {
        "inputs": [{"source": f"/home/{user}/logs/flink-{user}-taskexecutor-0-{host}.log"}],
        "findings": [
            {
                "code": "CP101",
                "subject": {"job_name": job, "task": task, "host": host},
                "title": f"{task} (1/4) of {job} on {host}",
                "evidence": [{"excerpt": f"{label}.taskmanager.{'.'.join(spelt)}"}],
                "anything": {"else": [f"{label}_{text}" for text in spelt]},
            }
        ],
        "data": {
            "applications": [{"settings": {"spark.app.name": job, "spark.driver.host": label}}]
        },
    }
    shown = json.dumps(pseudonymize(document), ensure_ascii=False).casefold()
    words = re.sub(r"[\W_]+", " ", shown)
    for name in (host, label, job, task, user):
        assert re.sub(r"[\W_]+", " ", name.casefold()) not in words, name
    assert "zqx" not in shown


# Names that occur only in the text of a log: the name, and a line with it.
ONLY_IN_TEXT: Final = {
    "broker-3.prod.acme": "Connection to node 3 (broker-3.prod.acme:9092) could not be established.",
    "kafka-7": "bootstrap.servers = [kafka-7:9092, kafka-8:9092]",
    "wrk-2_zurich_acme": "wrk-2_zurich_acme.taskmanager.tm-2.orders.enrich.0.numRecordsIn: 7",
    "jmhost": "jmhost.jobmanager.Status.JVM.CPU.Load: 0.1",
    "nn1": "Call From nn1/10.4.0.17:8020 failed on connection exception",
    "10.4.0.17": "Connection refused: /10.4.0.17:6123",
    "ip-10-4-0-18": "Lost executor 3 on ip-10-4-0-18.ec2.internal: Container killed by YARN",
    "aschmidt": 'Permission denied: user=aschmidt, access=WRITE, inode="/checkpoints":hdfs:supergroup',
    "ACMEX\\fhuber": r"users  with view permissions: ACMEX\fhuber; groups with view permissions: EMPTY",
    "gjansen": r'{"Event":"SparkListenerApplicationStart","User":"ACMEX\\gjansen"}',
    "hlang": "Changing view acls to: hlang",
    "bwagner": 'File "/home/bwagner/jobs/enrich.py", line 6, in enrich',
    "cmayer": "INFO  org.apache.flink.runtime.entrypoint.ClusterEntrypoint [] -  OS current user: cmayer",
    "dkoch": "users  with view permissions: dkoch; groups with view permissions: EMPTY",
    "etl@ACME.CORP": "Logged in as etl@ACME.CORP from keytab",
    "acme-checkpoints": "Could not write s3a://acme-checkpoints/flink/chk-7/_metadata",
    "billing_eu": "Cannot open jdbc:postgresql://db-4.acme.internal:5432/billing_eu?ssl=true",
    "payments.refunds.v2": "subscribed to topic payments.refunds.v2; topic=payments.refunds.v2",
    "ledger": "KafkaV2[Subscribe[ledger]]",
    "/srv/intake/ledger": "FileStreamSource[file:/srv/intake/ledger]",
    "orders-5d8f7c9b4d-x2x9p": "[pod/orders-5d8f7c9b4d-x2x9p/main] started",
    "orders-taskmanager-1-4": "Closing TaskExecutor connection orders-taskmanager-1-4 because: exit 137",
    "nightly-revenue": "spark.app.name=nightly-revenue",
    "C:\\Users\\fweber\\app": "Cannot read C:\\Users\\fweber\\app\\flink-conf.yaml",
}


@pytest.mark.parametrize(("name", "line"), ONLY_IN_TEXT.items())
def test_a_name_that_only_log_text_contains(name: str, line: str) -> None:
    later = f"again {name.upper()} and {re.sub('[^a-z0-9]', '_', name)}"
    document = {"findings": [{"evidence": [{"excerpt": line}, {"excerpt": later}]}]}
    shown = json.dumps(pseudonymize(document)).casefold()
    words = re.sub(r"[\W_]+", " ", shown.replace("\\\\", " "))
    assert " ".join(re.findall(r"[^\W_]+", name.casefold())) not in words


# Log lines and sentences that contain no name.
WITHOUT_NAMES: Final = (
    "INFO  o.a.f.runtime.checkpoint.CheckpointCoordinator [] - Checkpoint 7 of job 7e8abfb847c12f7b04299ff375ce6fdf",
    "at org.apache.flink.runtime.taskmanager.Task.run(Task.java:563)",
    "Caused by: java.util.concurrent.TimeoutException: Heartbeat of TaskManager timed out.",
    "taskmanager.memory.process.size: 4gb, spark.streaming.backpressure.pid.minRate=100",
    "Set `state.backend.rocksdb.memory.managed` to `true`: 8.0 s of the 10 s interval, 3 of 4 subtasks",
    "jobmanager.rpc.address: localhost",
    "localhost.jobmanager.Status.JVM.CPU.Load: 0.1, o.a.f.runtime.taskmanager.Task, kubernetes.taskmanager.cpu.amount: 2",
    "curl -o jobmanager.log http://JOBMANAGER:8081/jobmanager/log",
    "kubectl logs JOBMANAGER_POD > jobmanager.log",
    "MapPartitionsRDD[4] at map at NativeMethodAccessorImpl.java:0",
)


@pytest.mark.parametrize("line", WITHOUT_NAMES)
def test_a_text_without_names_is_unchanged(line: str) -> None:
    document: Any = {
        "inputs": [{"source": "logs/7e8abfb847c12f7b04299ff375ce6fdf"}],
        "findings": [{"title": line, "evidence": [{"excerpt": line}]}],
    }
    assert pseudonymize(document)["findings"] == document["findings"]
