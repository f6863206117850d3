"""Thread dumps: every format gives the same rows, and the table names what each thread does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.packing import archive_of, members
from flowdiag.parsers.discover import discover
from flowdiag.parsers.split import parse_on_driver, plan_splits
from flowdiag.parsers.stacks.activities import activities, frame_of, read_stack
from flowdiag.parsers.stacks.dumps import flink_threads, printed_rows, thread_rows
from tests.archives import FIXTURES

DATA = Path(__file__).parent / "data" / "threads"
RECORDED = members(archive_of(FIXTURES / "recordings" / "threads"))
MAILBOX = [
    "app//org.apache.flink.streaming.runtime.tasks.mailbox.MailboxProcessor.runMailboxLoop(M.java:231)",
    "java.base@17.0.15/java.lang.Thread.run(Thread.java:840)",
]
PARK = [
    "java.base@17.0.15/jdk.internal.misc.Unsafe.park(Native Method)",
    "java.base@17.0.15/java.util.concurrent.locks.LockSupport.park(LockSupport.java:341)",
]
MAIL = "app//org.apache.flink.streaming.runtime.tasks.mailbox"
MAP = "app//org.apache.flink.streaming.api.operators.StreamMap.processElement(StreamMap.java:38)"
USER = "com.shop.Price.map(Price.java:31)"
SOCKET = "java.base@17.0.15/sun.nio.ch.SocketDispatcher.read0(Native Method)"
ASYNC = "app//org.apache.flink.streaming.api.operators.async.AsyncWaitOperator"


def rows(path: Path) -> list[dict[str, Any]]:
    found = discover([str(path)])
    table = parse_on_driver(plan_splits(found.sources))
    return [
        {**row, "fields": dict(row["fields"])}
        for row in table.to_pylist()
        if row["event"] == "thread"
    ]


@pytest.mark.parametrize("path", sorted(DATA.iterdir()), ids=lambda path: path.name)
def test_a_deadlock_and_a_lock_in_every_format(path: Path) -> None:
    found = {row["thread"]: row for row in rows(path)}
    first = found["enrich (1/2)#0"]
    assert (first["task"], first["subtask_index"], first["parallelism"], first["attempt"]) == (
        "enrich",
        0,
        2,
        0,
    )
    assert first["to_state"] == "BLOCKED"
    assert first["fields"]["owner"] == "enrich (2/2)#0"
    assert first["fields"]["deadlock"].splitlines() == ["enrich (1/2)#0", "enrich (2/2)#0"]
    assert first["fields"]["frame"] == "Dl$Fn.one(Dl.java:6)"
    waiting = found["map -> filter (2/2)#0"]["fields"]
    assert (waiting["kind"], waiting["call"]) == (
        "lock",
        "java.util.concurrent.locks.ReentrantLock.lock",
    )
    assert "deadlock" not in waiting
    assert found["regex (1/1)#0"]["fields"]["activity"] == "regex"
    assert "main" not in found


@pytest.mark.parametrize("name", [name for name in RECORDED if not name.endswith("truth.jsonl")])
def test_threads_of_every_java_release(name: str, tmp_path: Path) -> None:
    """The program in `fixtures/thread_recorder` prints the truth about its threads."""
    release, file = name.removeprefix("java-").split("/")
    (tmp_path / file).write_bytes(RECORDED[name])
    found = {row["thread"]: row for row in rows(tmp_path / file)}
    truth = [json.loads(line) for line in RECORDED[f"java-{release}/truth.jsonl"].splitlines()]
    assert len(truth) == (19 if int(release) >= 21 else 18)
    assert found.keys() == {each["thread"] for each in truth}
    for each in truth:
        fields = found[each["thread"]]["fields"]
        owner, deadlock = each.get("owner"), each.get("deadlock", [])
        if "virtual_owner" in each and name not in (
            "java-25/jcmd-file.txt",
            "java-25/jcmd-file.json",
        ):
            owner = None  # other formats omit virtual threads, or the owners of monitors
        if "explicit" in each and not deadlock and file == "kill-3.out":
            owner = None
        if release == "21" and file.startswith("jcmd-file"):  # no states and locks
            owner, deadlock = None, []
            ambiguous = each["method"].endswith((".nest", ".enter", ".compute"))
            assert (fields["kind"] == "unknown") is ambiguous, each
        else:
            assert fields["kind"] == each["kind"], each
        assert fields["frame"].startswith(f"{each['method']}(RecordedThreads.java:")
        assert fields.get("owner") == owner, each
        assert sorted(fields.get("deadlock", "").splitlines()) == sorted(deadlock)


def test_text_cites_the_line_of_user_code() -> None:
    path = DATA / "java-17-jstack-l.txt"
    row = next(row for row in rows(path) if row["thread"] == "map -> filter (2/2)#0")
    line = path.read_bytes()[row["offset"] :].split(b"\n", 1)[0]
    assert line == b"\tat Dl$Fn.lock(Dl.java:6)"
    assert row["fields"]["owner"] == "map -> filter (1/2)#0"


def test_a_dump_inside_a_log(tmp_path: Path) -> None:
    record = b"2026-11-25 21:00:00,123 INFO  org.apache.flink.runtime.taskmanager.Task [] - x\n"
    path = tmp_path / "taskmanager.out"
    path.write_bytes(record + (DATA / "java-25-jstack-l.txt").read_bytes() + b"\n" + record)
    assert {row["thread"] for row in rows(path)} >= {"enrich (1/2)#0", "regex (1/1)#0"}


@pytest.mark.parametrize("wrapping", ["cri", "docker"])
def test_a_dump_in_a_container_log(wrapping: str, tmp_path: Path) -> None:
    def wrapped(line: str) -> str:
        if wrapping == "cri":
            return f"2026-11-25T21:31:34.123456789Z stdout F {line}"
        time = "2026-11-25T21:31:34.123456789Z"
        return json.dumps({"log": line + "\n", "stream": "stdout", "time": time})

    record = "2026-11-25 21:00:00,123 INFO  org.apache.flink.runtime.taskmanager.Task [] - x"
    lines = [record, *(DATA / "java-17-jstack-l.txt").read_text().splitlines(), record]
    path = tmp_path / "container.log"
    path.write_text("\n".join(map(wrapped, lines)))
    found = {row["thread"]: row for row in rows(path)}
    assert found["enrich (1/2)#0"]["fields"]["frame"] == "Dl$Fn.one(Dl.java:6)"
    cited = path.read_bytes()[found["enrich (1/2)#0"]["offset"] :].split(b"\n")[0]
    assert b"at Dl$Fn.one(Dl.java:6)" in cited


def test_the_stacks_of_a_dump_are_not_exceptions(tmp_path: Path) -> None:
    path = tmp_path / "dump.txt"
    path.write_bytes((DATA / "java-17-jstack-l.txt").read_bytes())
    table = parse_on_driver(plan_splits(discover([str(path)]).sources))
    assert set(table["event"].to_pylist()) == {"thread", "split"}


def test_two_dumps_in_one_file_are_two_samples(tmp_path: Path) -> None:
    path = tmp_path / "dumps.txt"
    data = (DATA / "java-17-jstack-l.txt").read_bytes()
    path.write_bytes(data + b"\n" + data.replace(b"21:31:34", b"21:31:36"))
    assert len({row["fields"]["dump"] for row in rows(path)}) == 2


def test_spark_names_the_owner_by_the_id_of_its_thread(tmp_path: Path) -> None:
    task = "Executor task launch worker for task 3.0 in stage 5.0 (TID 12)"
    threads = [
        {
            "threadId": 7,
            "threadName": task,
            "threadState": "BLOCKED",
            "stackTrace": {"elems": ["com.shop.Job$.call(Job.scala:9)"]},
            "blockedByThreadId": 8,
            "blockedByLock": "java.lang.Object@1",
            "holdingLocks": [],
        },
        {
            "threadId": 8,
            "threadName": "other",
            "threadState": "RUNNABLE",
            "stackTrace": {"elems": []},
        },
    ]
    path = tmp_path / "threads.json"
    path.write_text(json.dumps(threads))
    (row,) = rows(path)
    assert (row["thread"], row["fields"]["owner"], row["fields"]["kind"]) == (task, "other", "lock")


def flink(name: str, first: str, frames: list[str]) -> dict[str, str]:
    text = f'"{name}" Id=69 {first}\n' + "".join(f"\tat {frame}\n" for frame in frames)
    return {"threadName": name, "stringifiedThreadInfo": text}


def test_the_number_selects_among_lock_owners_with_the_same_name() -> None:
    name = "jdbc-upsert-output-format-thread-1"
    lock = f'BLOCKED on a.B@1 owned by "{name}" Id=69'
    writes = flink(name, "RUNNABLE", [SOCKET, "org.postgresql.core.PGStream.receiveChar(P.java:1)"])
    other = flink(name, "RUNNABLE", [USER])
    other["stringifiedThreadInfo"] = other["stringifiedThreadInfo"].replace("Id=69", "Id=70")
    body = {"threadInfos": [flink("deliver (1/2)#0", lock, MAILBOX), writes, other]}
    (_, blocked), *_ = thread_rows(flink_threads(body), "d")
    assert blocked["fields"]["owner_activity"] == "socket"
    assert blocked["fields"]["owner_component"] == "postgresql"


def test_flink_names_lock_and_owner() -> None:
    lock = 'BLOCKED on java.lang.Class@2a owned by "parse -> price (3/4)#0" Id=70'
    body = {
        "threadInfos": [
            flink("parse -> price (1/4)#0", lock, [USER, MAP, *MAILBOX]),
            flink("parse -> price (3/4)#0", "RUNNABLE (in native)", [SOCKET, USER, MAP, *MAILBOX]),
            flink("OutputFlusher for parse -> price (1/4)#0", "TIMED_WAITING", PARK),
        ]
    }
    (_, blocked), (_, owner) = thread_rows(flink_threads(body), "d")
    assert blocked["fields"] | {"lock": "java.lang.Class@2a"} == blocked["fields"]
    assert blocked["fields"]["owner_frame"] == USER
    assert owner["fields"]["kind"] == "external"


S3 = [
    "java.lang.Thread.sleep(Native Method)",
    "com.amazonaws.http.AmazonHttpClient$RequestExecutor.pauseBeforeRetry(AmazonHttpClient.java:1892)",
    "org.apache.hadoop.fs.s3a.S3AFileSystem.mkdirs(S3AFileSystem.java:3428)",
]


@pytest.mark.parametrize(
    ("name", "frames", "waits"),
    [
        (
            "jobmanager-io-thread-2",
            [
                *S3,
                "org.apache.flink.runtime.state.filesystem.FsCheckpointStorageAccess.initializeLocationForCheckpoint(F.java:161)",
            ],
            True,
        ),
        (
            "AsyncOperations-thread-1",
            [
                *S3,
                "org.apache.flink.streaming.runtime.tasks.AsyncCheckpointRunnable.run(A.java:78)",
            ],
            True,
        ),
        # A thread without a component may compute, and one that does not work for a checkpoint may do anything.
        (
            "AsyncOperations-thread-1",
            [
                "java.util.HashMap.get(HashMap.java:1)",
                "org.apache.flink.runtime.state.heap.HeapSnapshotStrategy.write(H.java:1)",
            ],
            False,
        ),
        ("jobmanager-io-thread-2", S3, False),
        ("jobmanager-io-thread-2", PARK, False),
        (
            "other-thread-2",
            [*S3, "org.apache.flink.runtime.checkpoint.CheckpointCoordinator.a(C.java:1)"],
            False,
        ),
    ],
)
def test_threads_that_wait_for_the_checkpoint_storage(
    name: str, frames: list[str], waits: bool
) -> None:
    found = [*thread_rows(flink_threads({"threadInfos": [flink(name, "WAITING", frames)]}), "d")]
    assert [
        (row.get("task"), row["fields"]["kind"], row["fields"]["component"]) for _, row in found
    ] == ([(None, "checkpoint", "s3a")] if waits else [])


STACKS: list[tuple[str, list[str], str]] = [
    ("TIMED_WAITING", [*PARK, f"{MAIL}.TaskMailboxImpl.take(T.java:1)"], "idle"),
    (
        "WAITING",
        [
            *PARK,
            f"{MAIL}.TaskMailboxImpl.take(T.java:1)",
            f"{MAIL}.MailboxExecutorImpl.yield(M.java:1)",
            f"{ASYNC}.addToWorkQueue(A.java:1)",
        ],
        "async-queue-full",
    ),
    ("RUNNABLE", [SOCKET, USER, MAP], "socket"),
    ("BLOCKED", [USER, MAP], "monitor"),
    (
        "BLOCKED",
        [
            "org.apache.logging.log4j.core.appender.OutputStreamManager.writeBytes(O.java:1)",
            "org.apache.logging.log4j.spi.AbstractLogger.info(A.java:1)",
            USER,
        ],
        "logging",
    ),
    ("TIMED_WAITING", ["java.lang.Thread.sleep(Native Method)", USER, MAP], "sleep"),
    (
        "TIMED_WAITING",
        [*PARK, "com.zaxxer.hikari.pool.HikariPool.getConnection(H.java:1)", USER],
        "connection-pool",
    ),
    (
        "WAITING",
        [*PARK, "java.util.concurrent.CompletableFuture.get(C.java:1)", USER],
        "future",
    ),
    (
        "RUNNABLE",
        [
            "app//org.rocksdb.RocksDB.get(Native Method)",
            "app//org.apache.flink.state.rocksdb.RocksDBValueState.value(R.java:1)",
            USER,
        ],
        "rocksdb",
    ),
    (
        "RUNNABLE",
        [
            "com.esotericsoftware.kryo.Kryo.writeObject(K.java:1)",
            "app//org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializer.copy(K.java:1)",
            MAP,
        ],
        "kryo",
    ),
    ("RUNNABLE", [USER, MAP], "user-code"),
    (
        "WAITING",
        [
            *PARK,
            "java.util.concurrent.CompletableFuture.get(C.java:1)",
            "org.apache.flink.runtime.io.network.buffer.LocalBufferPool.requestMemorySegmentBlocking(L.java:1)",
        ],
        "output-buffer",
    ),
    (
        "WAITING",
        [
            *PARK,
            "java.util.concurrent.LinkedBlockingQueue.take(LinkedBlockingQueue.java:435)",
            "org.apache.flink.streaming.api.runners.python.beam.BeamPythonFunctionRunner.takeResult(B.java:417)",
            "org.apache.flink.streaming.api.operators.python.process.ExternalPythonProcessOperator.processElement(E.java:1)",
        ],
        "python-worker",
    ),
]


@pytest.mark.parametrize(("state", "frames", "expected"), STACKS, ids=[s[2] for s in STACKS])
def test_activities(state: str, frames: list[str], expected: str) -> None:
    parsed = [frame_of(text) for text in (*frames, *MAILBOX)]
    reading = read_stack([frame for frame in parsed if frame is not None], state)
    assert reading.activity == expected
    assert reading.frame == (USER if USER in frames else None)


def test_the_call_below_generated_frames_and_the_component() -> None:
    frames = [
        "org.postgresql.core.v3.QueryExecutorImpl.execute(Q.java:1)",
        "jdk.proxy2/jdk.proxy2.$Proxy7.executeQuery(Unknown Source)",
        USER,
    ]
    parsed = [frame_of(text) for text in (SOCKET, *frames)]
    reading = read_stack([frame for frame in parsed if frame is not None], "RUNNABLE")
    assert reading.component == "postgresql"
    assert reading.call == "org.postgresql.core.v3.QueryExecutorImpl.execute"


def test_the_component_of_a_chain_without_user_code() -> None:
    """The last operator of the chain waits, not the source at its beginning."""
    lines = [
        SOCKET,
        "org.postgresql.core.v3.QueryExecutorImpl.execute(Q.java:1)",
        "org.apache.flink.connector.jdbc.core.table.source.JdbcRowDataLookupFunction.lookup(J.java:151)",
        "org.apache.flink.table.runtime.operators.join.lookup.LookupJoinRunner.processElement(L.java:92)",
        "org.apache.flink.streaming.runtime.tasks.CopyingChainingOutput.collect(C.java:50)",
        "org.apache.flink.connector.kafka.source.reader.KafkaRecordEmitter.emitRecord(K.java:53)",
        *MAILBOX,
    ]
    frames = [frame for line in lines if (frame := frame_of(line)) is not None]
    assert read_stack(frames, "RUNNABLE").component == "postgresql"


@pytest.mark.parametrize(
    "frame",
    [
        "net.jpountz.lz4.LZ4BlockOutputStream.flushBufferedData(L.java:225)",
        "com.github.luben.zstd.ZstdOutputStreamNoFinalizer.write(Z.java:1)",
        "org.xerial.snappy.SnappyOutputStream.compressInput(S.java:1)",
        "org.roaringbitmap.RoaringBitmap.add(R.java:1)",
    ],
)
def test_the_libraries_of_an_engine_are_not_user_code(frame: str) -> None:
    lines = (frame, "org.apache.spark.broadcast.TorrentBroadcast$.blockifyObject(T.scala:358)")
    frames = [each for line in lines if (each := frame_of(line)) is not None]
    assert read_stack(frames, "RUNNABLE").frame is None


def test_hidden_classes_are_not_user_code() -> None:
    """HotSpot names the hidden class of a lambda by an address."""
    lines = [
        "java.base@17/java.lang.Thread.sleep(Native Method)",
        "app//0x00007fe2a80.accept(Unknown Source)",
        "com.acme.Enrich.map(Enrich.java:7)",
    ]
    frames = [frame for line in lines if (frame := frame_of(line)) is not None]
    assert read_stack(frames, "TIMED_WAITING").frame == "com.acme.Enrich.map(Enrich.java:7)"


@pytest.mark.parametrize(
    ("frame", "is_user"),
    [
        ("LookupFunction$4.flatMap(Unknown Source)", False),
        ("Enrich$1.map(Enrich.java:7)", True),
        ("com.acme.Enrich$1.map(Unknown Source)", True),
    ],
)
def test_functions_compiled_by_sql_are_not_user_code(frame: str, is_user: bool) -> None:
    lines = (SOCKET, "org.postgresql.core.v3.QueryExecutorImpl.execute(Q.java:1)", frame, *MAILBOX)
    frames = [each for line in lines if (each := frame_of(line)) is not None]
    reading = read_stack(frames, "RUNNABLE")
    assert (reading.component, reading.frame) == ("postgresql", frame if is_user else None)


def test_waits_inside_flink_are_not_an_activity() -> None:
    frames = [*PARK, "java.util.concurrent.CompletableFuture.get(C.java:1)", MAP, *MAILBOX]
    parsed = [frame_of(text) for text in frames]
    assert read_stack([each for each in parsed if each is not None], "WAITING").kind == "unknown"


def test_names_are_unique_and_kinds_known() -> None:
    names = [each.name for each in activities()]
    assert len(names) == len(set(names))
    assert all(each.what and each.kind for each in activities())


@given(st.text(max_size=200), st.binary(max_size=400))
def test_any_text_is_read_without_an_error(text: str, data: bytes) -> None:
    head = b"Full thread dump X\n" + f'"{text}" #1 prio=5\n'.encode() + data
    assert len([*printed_rows(head, "x")]) <= 1
    body = {"threadInfos": [{"threadName": text, "stringifiedThreadInfo": text}]}
    assert len([*thread_rows(flink_threads(body), "x")]) <= 1


def test_threads_that_run_no_task_give_no_rows() -> None:
    """A process may have thousands of pool threads: only threads of tasks become rows."""
    helper = (
        '"pool-%d-thread-1" #%d prio=5 tid=0x1 nid=0x1 waiting on condition\n'
        "   java.lang.Thread.State: WAITING (parking)\n" + f"\tat {PARK[0]}\n" * 20 + "\n"
    )
    blocks = "".join(helper % (number, number) for number in range(1000))
    assert [*printed_rows(f"Full thread dump OpenJDK\n\n{blocks}".encode(), "x")] == []


def test_threads_with_similar_names_are_counted() -> None:
    helper = '"pool-%d-thread-1" #%d prio=5 tid=0x1 nid=0x1 runnable\n\n'
    task = '"enrich (1/2)#0" #1 prio=5 tid=0x1 nid=0x1 runnable\n   java.lang.Thread.State: RUNNABLE\n\n'
    blocks = "".join(helper % (number, number) for number in range(150))
    ((_, row),) = printed_rows(f"Full thread dump OpenJDK\n\n{task}{blocks}".encode(), "x")
    assert (row["fields"]["crowd"], row["fields"]["crowd_name"]) == ("150", "pool-#-thread-#")
