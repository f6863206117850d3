"""The table of components: entries and the choice between them."""

from __future__ import annotations

import re

import pytest

from flowdiag.parsers.components import component_named, component_of, components, process_of

FLINK_FRAME = "\tat org.apache.flink.streaming.runtime.tasks.StreamTask.invoke(StreamTask.java:751)"


def test_entries_are_complete() -> None:
    for each in components().values():
        assert each.packages or each.texts, each.name
        assert each.role in ("part", "transport", "engine", "process"), each.name
        assert each.what[0].islower() or re.match(r"[A-Z]\w+", each.what), each.name
        assert each.check[0].isupper() and not each.check.endswith("."), each.name
        assert each.log and not each.log.endswith("."), each.name


def test_a_prefix_belongs_to_one_component() -> None:
    prefixes = [prefix for each in components().values() for prefix in each.packages]
    assert len(prefixes) == len(set(prefixes))
    assert not [prefix for prefix in prefixes if prefix.endswith(".")]


@pytest.mark.parametrize(
    ("chain", "lines", "expected"),
    [
        (
            ["org.postgresql.util.PSQLException: FATAL: sorry, too many clients already"],
            [],
            "postgresql",
        ),
        (
            [
                "java.sql.BatchUpdateException: failed",
                "java.sql.SQLException: ORA-00001: unique constraint",
            ],
            [],
            "oracle",
        ),
        (
            [
                "java.io.IOException: Could not flush",
                "java.net.SocketTimeoutException: Read timed out",
            ],
            [
                "java.io.IOException: Could not flush",
                FLINK_FRAME,
                "Caused by: java.net.SocketTimeoutException: Read timed out",
                "\tat java.base/java.net.SocketInputStream.read(SocketInputStream.java:151)",
                "\tat com.amazonaws.http.AmazonHttpClient.execute(AmazonHttpClient.java:713)",
                "\tat org.apache.hadoop.fs.s3a.S3AFileSystem.create(S3AFileSystem.java:1)",
            ],
            "s3a",
        ),
        # A transport below a client: the client is the useful answer.
        (
            [
                "io.lettuce.core.RedisConnectionException: Unable to connect to redis/10.0.0.4:6379",
                "io.netty.channel.AbstractChannel$AnnotatedConnectException: Connection refused",
            ],
            [],
            "redis",
        ),
        # The job's own code is no component, whatever ran it.
        (
            ["java.lang.NumberFormatException: n/a"],
            [
                "java.lang.NumberFormatException: n/a",
                "\tat java.base/java.lang.Integer.parseInt(Integer.java:652)",
                "\tat com.acme.orders.ParseOrder.map(ParseOrder.java:41)",
                FLINK_FRAME,
            ],
            None,
        ),
        (
            ["java.util.NoSuchElementException: key not found: ts"],
            [
                "java.util.NoSuchElementException: key not found: ts",
                "\tat scala.collection.MapLike.default(MapLike.scala:236)",
                "\tat org.apache.iceberg.spark.SparkUtil.get(SparkUtil.java:1)",
            ],
            "iceberg",
        ),
        (["org.apache.flink.util.FlinkRuntimeException: something"], [], "flink"),
        ([], [], None),
    ],
)
def test_component(chain: list[str], lines: list[str], expected: str | None) -> None:
    found = component_of(chain, lines)
    assert (found.name if found else None) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("org.apache.flink.shaded.netty4.io.netty.channel.Channel", "netty"),
        ("org.apache.flink.kafka.shaded.org.apache.kafka.clients.NetworkClient", "kafka-client"),
        ("org.apache.flink.connector.kafka.source.KafkaSource", "kafka-connector"),
        ("com.acme.Job", None),
        ("", None),
    ],
)
def test_names(name: str, expected: str | None) -> None:
    found = component_named(name)
    assert (found.name if found else None) == expected


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (
            "org.apache.flink.runtime.webmonitor.handlers.JarRunHandler.handle(JarRunHandler.java:1)",
            "flink-jobmanager",
        ),
        ("org.apache.flink.client.cli.CliFrontend.main(CliFrontend.java:1)", "flink-client"),
        ("org.apache.flink.runtime.taskmanager.Task.run(Task.java:1)", "flink-taskmanager"),
        ("org.apache.spark.executor.Executor$TaskRunner.run(Executor.scala:1)", "spark-executor"),
        ("java.base/java.lang.Thread.run(Thread.java:1)", None),
    ],
)
def test_process(frame: str, expected: str | None) -> None:
    found = process_of(["java.lang.OutOfMemoryError: Java heap space"], [f"\tat {frame}"])
    assert (found.name if found else None) == expected


def test_the_sink_of_a_vendor_is_no_code_of_the_job() -> None:
    lines = [
        "com.alibaba.hologres.client.HoloClientException: read-only",
        "\tat com.alibaba.hologres.client.impl.action.PutAction.check(PutAction.java:61)",
        "\tat com.alibaba.ververica.connectors.hologres.sink.HologresSinkFunction.invoke(HologresSinkFunction.java:97)",
    ]
    source, process = component_of(lines[:1], lines), process_of(lines[:1], lines)
    assert source is not None and source.name == "hologres"
    assert process is not None and process.name == "flink-taskmanager"


@pytest.mark.parametrize(
    ("service", "expected"), [("bigquery", "bigquery"), ("storage", "gcs"), ("other", None)]
)
def test_the_address_of_a_google_service_names_it(service: str, expected: str | None) -> None:
    text = f"com.google.api.client.googleapis.json.GoogleJsonResponseException: 403 Forbidden POST https://{service}.googleapis.com/v2/x"
    found = component_of([text])
    assert (found.name if found is not None and found.role == "part" else None) == expected
