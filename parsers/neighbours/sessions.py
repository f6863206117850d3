"""Reads database sessions as printed by database clients, and lock waits from the servers' logs.

Sessions are rows of PostgreSQL's `pg_stat_activity`. In MariaDB and MySQL, they are rows of `innodb_trx`, of
`SHOW PROCESSLIST`, or of both joined.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from flowdiag.parsers.neighbours.tables import EXPANDED, MAX_TEXT, columns_of, read_rows
from flowdiag.parsers.neighbours.times import time_of_line

_COLUMNS: Final = frozenset(("pid", "state", "query", "wait_event", "wait_event_type"))
POSTGRES: Final = "PostgreSQL"
MARIADB: Final = "MySQL or MariaDB"
_INNODB: Final = "trx_state"
"""The column of `innodb_trx` that shows waits; no view of PostgreSQL has such a column."""
_PROCESSES: Final = frozenset(("id", "user", "host", "command", "time", "state", "info"))
"""Columns of `SHOW PROCESSLIST`."""
_LOCK_STATE: Final = re.compile(
    r"waiting for (?:\S+ )?(?:metadata|level|global read|user|backup) lock", re.IGNORECASE
)
"""States of a thread that waits for the lock of a table. Waits for rows of InnoDB have no state of their own."""
_THREAD: Final = ("trx_mysql_thread_id", "id", "processlist_id", "thread_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session at one point in time.

    Attributes:
        state: `active`, `idle`, `idle in transaction`, …
        wait: type of the event that the session waits for: `Lock`, `Client`, `IO`, …; None if it does not wait.
        blocked_by: process IDs of the sessions that hold the lock, if the query selects them.
        offset: offset of the row in the text.
        system: name of the database system.
    """

    pid: int
    application: str | None
    client: str | None
    state: str | None
    wait: str | None
    event: str | None
    query: str | None
    blocked_by: tuple[int, ...]
    time_us: int | None
    offset: int
    system: str = POSTGRES

    @property
    def waits_for_lock(self) -> bool:
        """Whether another session blocks this session."""
        return self.wait == "Lock" or bool(self.blocked_by)

    @property
    def uses_jdbc(self) -> bool:
        """Whether PostgreSQL's Java driver opened the session."""
        return self.application == "PostgreSQL JDBC Driver"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockWait:
    """A wait for a lock of at least `deadlock_timeout`, from the server's log (`log_lock_waits`).

    Attributes:
        ended: whether the process has got the lock.
        holders: processes that hold the lock, from the DETAIL line.
    """

    pid: int
    mode: str
    what: str
    waited_ms: float
    ended: bool
    holders: tuple[int, ...]
    time_us: int | None
    offset: int

    @property
    def begin_us(self) -> int | None:
        """When the process began to wait."""
        return None if self.time_us is None else self.time_us - round(self.waited_ms * 1000)


_HEADER: Final = re.compile(r"^[^\n|]{0,200}\bpid\b[^\n]*$", re.MULTILINE)
_INNODB_HEADER: Final = re.compile(
    rf"^(?=[^\n]{{0,400}}\btrx_started\b)[^\n]{{0,400}}\b{_INNODB}\b", re.MULTILINE
)
_PROCESSES_HEADER: Final = re.compile(
    r"^[| \t]{0,8}id[| \t]{1,20}user[| \t]{1,40}host[| \t]{1,80}db[| \t]{1,40}command\b",
    re.MULTILINE | re.IGNORECASE,
)
_WAIT: Final = re.compile(
    r"^(?P<head>[^\n]{0,300}?)\bprocess (?P<pid>\d{1,9}) (?P<verb>still waiting for|acquired) (?P<mode>\w{1,40})"
    r" on (?P<what>[^\n]{1,200}?) after (?P<ms>[\d.]{1,20}) ms",
    re.MULTILINE,
)
_HOLDERS: Final = re.compile(r"Process(?:es)? holding the lock: ([\d, ]{1,200})")


def looks_like_sessions(text: str) -> bool:
    """Return whether a text contains rows of `pg_stat_activity`, `innodb_trx` or `SHOW PROCESSLIST`.

    >>> looks_like_sessions(" pid | state  | wait_event_type | query\\n-----+--------+---\\n   1 | active | Lock | COMMIT\\n")
    True
    >>> looks_like_sessions("pid of the process: 1")
    False
    """
    head = text[:65536]
    if "trx_started" in head and any(_INNODB in found for found in _INNODB_HEADER.findall(head)):
        return True
    if "command" in head.lower() and _PROCESSES_HEADER.search(head):
        return True
    if "pid" not in head:
        return False
    return any(
        len(_COLUMNS & {name.strip().strip('"') for name in re.split(r"[|,\t]", found[0])}) >= 2
        for found in _HEADER.finditer(head)
    ) or (EXPANDED.search(head) is not None and "| " in head and "state" in head)


_LOG: Final = re.compile(
    r"^20\d\d-\d\d-\d\d [\d:.]{8,15} [A-Z+\-:\d]{1,6} [^\n]{0,200}?\b(?:LOG|FATAL|ERROR|DETAIL|STATEMENT|HINT): {2}\S",
    re.MULTILINE,
)


def holds_database_log(text: str) -> bool:
    """Return whether a text is a PostgreSQL server log, in which two spaces follow the level.

    >>> holds_database_log("2026-11-25 21:30:00.123 UTC [7] LOG:  database system is ready\\n" * 3)
    True
    """
    return len(_LOG.findall(text[:65536])) >= 3


def read_sessions(text: str, name: str = "") -> list[Session]:
    """Return the sessions in the output of a database client: aligned, expanded, or comma-separated."""
    rows = read_rows(text, name, _header)
    return [session for row in rows for session in _session(*row)]


def _header(line: str) -> tuple[list[str], str] | None:
    for columns, separator in columns_of(line):
        if "pid" in columns and len(_COLUMNS & set(columns)) >= 2:
            return columns, separator
        lower = [column.lower() for column in columns]
        if set(lower) >= _PROCESSES or (_INNODB in lower and set(_THREAD) & set(lower)):
            return lower, separator
    return None


def _session(row: dict[str, str], time_us: int | None, offset: int) -> Iterator[Session]:
    if _is_of_mysql(row):
        yield from _innodb_session(row, time_us, offset)
        return
    pid = row.get("pid", "")
    if not pid.isdecimal() or len(pid) > 9:
        return
    blockers = next((value for key, value in row.items() if "block" in key.lower()), "")
    yield Session(
        pid=int(pid),
        application=row.get("application_name") or None,
        client=row.get("client_addr") or row.get("client_hostname") or None,
        state=row.get("state") or None,
        wait=row.get("wait_event_type") or None,
        event=row.get("wait_event") or None,
        query=row.get("query") or row.get("left") or None,
        blocked_by=tuple(int(each) for each in re.findall(r"\d{1,9}", blockers)),
        time_us=time_us,
        offset=offset,
    )


def _is_of_mysql(row: dict[str, str]) -> bool:
    return _INNODB in row or row.keys() >= _PROCESSES


def _innodb_session(row: dict[str, str], time_us: int | None, offset: int) -> Iterator[Session]:
    """Yield a session of MariaDB or MySQL. An open transaction without a statement is idle."""
    known = {name: value for name, value in row.items() if value not in ("", "NULL")}
    pid = next((known[name] for name in _THREAD if name in known), "")
    if not pid.isdecimal() or len(pid) > 12:
        return
    blockers = next((value for key, value in known.items() if "block" in key), "")
    table = _LOCK_STATE.match(known.get("state", ""))
    waits = known.get(_INNODB) == "LOCK WAIT" or table is not None
    yield Session(
        pid=int(pid),
        application=None,
        client=_remote_address(known.get("host", "")),
        state=_innodb_state(known),
        wait="Lock" if waits else None,
        event=None if not waits else "table" if table else "row",
        query=known.get("info", known.get("trx_query")),
        blocked_by=tuple(int(each) for each in re.findall(r"\d{1,12}", blockers)),
        time_us=time_us,
        offset=offset,
        system=MARIADB,
    )


def _remote_address(host: str) -> str | None:
    """Return the client's address, or None for a client on the same host."""
    name = host.partition(":")[0]
    return None if name in ("", "localhost") else name


def _innodb_state(known: dict[str, str]) -> str:
    if known.get("command", "").lower() != "sleep":
        return "active"
    return "idle in transaction" if _INNODB in known else "idle"


_ADDRESS: Final = re.compile(
    r'LOG: {2}listening on IPv[46] address "(?P<host>[\da-fA-F.:]{2,45})", port (?P<port>\d{1,5})'
)


def read_address(text: str) -> str | None:
    """Return the `host:port` that a PostgreSQL server listens on, or None for all addresses or only local addresses.

    >>> read_address('LOG:  listening on IPv4 address "10.0.0.12", port 5432')
    '10.0.0.12:5432'
    """
    for found in _ADDRESS.finditer(text[:MAX_TEXT]):
        host = found["host"]
        if host not in ("0.0.0.0", "::", "127.0.0.1", "::1"):
            return f"[{host}]:{found['port']}" if ":" in host else f"{host}:{found['port']}"
    return None


def read_lock_waits(text: str) -> list[LockWait]:
    """Return the lock waits in a PostgreSQL log, in order of appearance."""
    found = []
    for wait in _WAIT.finditer(text[:MAX_TEXT]):
        detail = _HOLDERS.search(text, wait.end(), wait.end() + 600)
        found.append(
            LockWait(
                pid=int(wait["pid"]),
                mode=wait["mode"],
                what=wait["what"],
                waited_ms=float(wait["ms"]),
                ended=wait["verb"] == "acquired",
                holders=tuple(int(each) for each in re.findall(r"\d+", detail[1]))
                if detail
                else (),
                time_us=time_of_line(wait["head"]),
                offset=len(text[: wait.start()].encode()),
            )
        )
    return found
