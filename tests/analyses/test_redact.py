"""Secrets and control characters never pass."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flowdiag.analyses.contract import redact
from flowdiag.analyses.contract.redact import (
    clean,
    mask_secrets,
    printable,
    visible_json,
)
from flowdiag.analyses.model.fmt import shorten
from flowdiag.parsers import secrets

SECRET = "hunter2ABCDEFghij"


@pytest.mark.parametrize(
    "text",
    [
        f"password={SECRET}",
        f"sasl.password: '{SECRET}'",
        f'{{"apiKey": "{SECRET}", "x": 1}}',
        f'{{\\"api_key\\":\\"{SECRET}\\"}}',
        f"fs.s3a.secret.key = {SECRET}",
        f"fs.azure.account.key.x.core.windows.net={SECRET}",
        f"Authorization: Bearer {SECRET}",
        f"authorization: Basic {SECRET}==",
        f"jdbc:mysql://root:{SECRET}@db:3306/orders",
        f"s3n://AKIA1:{SECRET}/x@bucket/path",
        f"https://host/x?sig={SECRET}&se=2026",
        f"https://host/x?X-Amz-Signature={SECRET}&X-Amz-Date=1",
        f'PlainLoginModule required username="u" password="{SECRET}";',
        f'password="{SECRET}',  # the closing quote is cut off
        f"eyJhbGciOiJIUzI1NiJ9.{SECRET}.x",
        f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n",
        f"ghp_{SECRET}{SECRET}",
        f"access token => {SECRET}",
        *(
            f"{key}={SECRET}"
            for key in ("passphrase", "db.passwd", "pwd", "credential", "private_key")
        ),
        *(f"{key}: {SECRET}" for key in ("jaas.config", "shared key", "signature", "STORAGE-KEY")),
        *(
            f"{start}{SECRET}{SECRET}"
            for start in ("glpat-", "github_pat_", "xoxb-", "ya29.", "sk-")
        ),
        f"AIza{SECRET}{SECRET}A",
        f"pa\u017f\u017fword={SECRET}",  # letters that equal an s in case-insensitive comparison
        f"api_\u212aey={SECRET}",
    ],
)
def test_secrets(text: str) -> None:
    assert SECRET not in mask_secrets(text)
    assert SECRET not in clean(text)


@pytest.mark.parametrize(
    "text",
    [
        "Checkpoint 7 of job 0123456789abcdef0123456789abcdef expired before completing.",
        "Deploying Map (3/6) (attempt #0) to container_e05_1_01_000002 @ worker-3 (dataPort=40090)",
        "akka.tcp://flink@jobmanager:6123/user/rpc/jobmanager_2",
        "Key group 5 is not in KeyGroupRange{startKeyGroup=0, endKeyGroup=1}",
        "http://host:8081/jobs/overview",
        "signal: SIGTERM, design=1, author=me",
    ],
)
def test_text_without_secrets_is_unchanged(text: str) -> None:
    assert mask_secrets(text) == text


_PIECES = (
    "key",
    "Sig",
    "token",
    "=",
    ": ",
    " ",
    "://",
    "u:p@h",
    "Basic ",
    "eyJ",
    "AKIA",
    "sk-",
    "ghp_",
)


@given(
    st.lists(st.sampled_from([*_PIECES, SECRET, SECRET.upper()[:16], "\u212a", "."])).map("".join)
)
def test_the_literal_search_misses_no_secret(text: str) -> None:
    searched = text
    for pattern, mask, _ in secrets._searches():
        searched = pattern.sub(mask, searched)
    assert mask_secrets(text) == searched


_BODY = "X9Z8" * 9  # holds no literal by chance


@pytest.mark.parametrize(
    "text",
    [
        *(f"{start}{_BODY[:16]}" for start in ("AKIA", "ASIA")),
        *(
            f"{start}{_BODY}"
            for start in ("ghs_", "github_pat_", "glpat-", "xoxb-", "ya29.", "sk-")
        ),
        f"AIza{_BODY[:35]}",
        f"https://{_BODY}@host/",
        f"client_secret: {_BODY}",
        f"Authorization: {_BODY}",
    ],
)
def test_each_literal_leads_to_its_search(text: str) -> None:
    assert _BODY[:16] not in mask_secrets(text)


@given(st.text())
@example("\x1b]0;title\x07text\x1b[2J\u202ereversed\ud800")
def test_nothing_invisible_passes(text: str) -> None:
    shown = printable(text)
    shown.encode()
    assert all(
        character == " " or character.isprintable() or ord(character) >= 0xA0 for character in shown
    )
    assert not set(shown) & set("\x1b\u202e\u2066\ufeff\n\r")


def test_characters_that_text_must_not_contain_are_escaped() -> None:
    surrogates = [0xD800, 0xDFFF]
    noncharacters = [
        *range(0xFDD0, 0xFDF0),
        *(plane << 16 | last for plane in range(17) for last in (0xFFFE, 0xFFFF)),
    ]
    for code in (*surrogates, *noncharacters):
        shown = printable(f"a{chr(code)}b")
        assert shown == clean(f"a{chr(code)}b") and shown.isascii()
        assert int(shown[3:-1], 16) == code
        document = visible_json(f'{{"a":"{chr(code)}"}}')
        assert document.isascii() and json.loads(document) == {"a": chr(code)}


def test_text_that_takes_too_long_is_withheld(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "TIMEOUT_S", 1e-6)
    assert mask_secrets("secret" * 20_000) == secrets.WITHHELD


def test_only_the_visible_part_of_a_long_line_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []

    def search(text: str) -> str:
        searched.append(len(text))
        return mask_secrets(text)

    monkeypatch.setattr(redact, "mask_secrets", search)
    answer = json.dumps([{"id": number, "secret": SECRET} for number in range(3000)])
    assert SECRET not in clean(answer)
    assert searched and max(searched) < 3000 < len(answer)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.sampled_from([*_PIECES, SECRET, "@", '"', ",", "https://u", "x" * 300, "\n"]),
        min_size=10,
        max_size=30,
    ).map("".join)
)
def test_a_partial_search_of_a_long_line_shows_the_same_text(text: str) -> None:
    text = text * 3
    assert clean(text) == shorten(printable(mask_secrets(text)).strip(), 500)
