"""Detects and masks secrets in configurations and free text.

Collectors mask the secrets in a response before they write it to disk. Reports mask them in every excerpt.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import regex

MASK: Final = "***"
WITHHELD: Final = "*** (withheld: the search for secrets timed out)"
# An excerpt takes microseconds; only malicious text comes near this limit.
TIMEOUT_S: Final = 0.5

# Words in keys whose values are secret: from Flink's `GlobalConfiguration.SENSITIVE_KEYS` (1.9 to 2.3), from
# `spark.redaction.regex`, and more. `[-_. ]` allows "api key" in free text.
_KEYS = (
    r"pass(?:word|wd|phrase|code)|pwd|secret|token(?!iz|s\W{1,4}\d{1,12}\b)|credentials?|authorization"
    r"|jaas\.config|(?<=[._-])pass(?![a-z])|requirepass|auth-params|basic-auth|http-headers"
    r"|auth[-_.]user[-_.]?info|jsessionid|connection[-_]?string"
    r"|(?:api|access|account|private|shared|encryption|storage|service|signing|master)[-_. ]?key"
    r"|(?<![a-z])sig(?:nature)?(?![a-z])"
)
# A key with one of these endings only describes a secret: its location, provider or lifetime.
_OTHERS = (
    r"class|dir|directory|enabled|endpoint|expiry|factory|file|format|handler|interval|length|location|manager|[-_.]ms"
    r"|name|names|path|provider|providers|receiver|ref|renewer|service|size|store|timeout|type|ur[il]|utils?"
)
_NAMED = rf"(?:{_KEYS})[\w.-]{{0,80}}(?<!{_OTHERS})"
_KEY = rf"[\w.-]{{0,80}}{_NAMED}"
# A value ends at the punctuation of the log line. A quoted value may be truncated.
_VALUE = r"""\\?"(?:[^"\\]|\\.)*"?|'[^']*'?|\[?[^\s,;&"'<>)\]}]+"""
_IS = r"""\\?["']?\s*(?:=>|->|:=|[=:]|%3[ADad])\s*(?:[|>][-+]?\s+(?=\S))?"""
# Each search has a pattern, its replacement, and lower-case literals: every match contains one of them.
_WORDS = (
    *("pass", "pwd", "secret", "token", "credential", "authorization", "jaas", "key", "sig"),
    *("auth-params", "basic-auth", "http-headers", "jsessionid"),
    *(
        f"{first}{between}{second}"
        for first, second in (("user", "info"), ("connection", "string"))
        for between in ("", "-", "_", ".")
    ),
)
_SECRETS: Final = (
    (
        r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]*-----|\Z)",
        MASK,
        ("private key",),
    ),
    # Not "basic authentication": credentials never consist of lower-case letters only.
    (
        r"(?i)\b(bearer|basic)\s+(?-i:(?![a-z]+\b))[\w.~+/=-]{8,}",
        rf"\1 {MASK}",
        ("bearer", "basic"),
    ),
    (r"(?i)\b((?:set-)?cookie\s*:\s*)[^\r\n\"']+", rf"\1{MASK}", ("cookie",)),
    (
        # Not an exception class before its message, a boolean, or a shell's working directory.
        (
            rf"""(?i)({_NAMED}(?<!Exception(?=:\s)|Error(?=:\s)|Failure(?=:\s)|Throwable(?=:\s)))({_IS})"""
            r"""(?!\\?["']?(?:true|false|null|none)\b)(?!(?<=\b(?-i:(?:OLD)?PWD)=)/)"""
            rf"""(?:(?:bearer|basic|digest|negotiate|token|aws4-hmac-sha256)\s+)?(?:{_VALUE})"""
        ),
        rf"\1\2{MASK}",
        _WORDS,
    ),
    # ("key","value"), (key,value), <name>key</name><value>…, "name": "KEY", "value": "…"
    (
        # Not Hadoop's list of authentication methods: [TOKEN, KERBEROS].
        rf"""(?i)([(\[]\\?["']?{_KEY}\\?["']?,\s*)(?-i:(?!(?:KERBEROS|SIMPLE|DIGEST|PLAIN|TOKEN)\b))(?:{_VALUE})""",
        rf"\1{MASK}",
        _WORDS,
    ),
    (
        (
            rf"""(?i)((?:key|name)\\?["']?\s*[:=>]\s*\\?["']?{_KEY}"""
            rf"""(?:\\?["']?[\s,;]*|</\w+>\s*<)\\?["']?value\\?["']?\s*[:=>]\s*)(?:{_VALUE})"""
        ),
        rf"\1{MASK}",
        _WORDS,
    ),
    (rf"(?i)(<{_KEY}>)[^<]+", rf"\1{MASK}", _WORDS),
    (
        rf"""(?i)((?<![\w-])--?{_KEY}\s+)(?!-|(?:is|or|and|must|was|not|to|needs?|option)\b)(?:{_VALUE})""",
        rf"\1{MASK}",
        _WORDS,
    ),
    (r"(?i)\b(identified\s+by\s+|password\s+)'[^']*'?", rf"\1{MASK}", ("identified", "password")),
    (r"((?<!\S)(?:-u|--user)[\s=]+[\"']?[^\s:\"']+:)[^\s\"']+", rf"\1{MASK}", ("-u",)),
    # user:password@ before a host; a password can contain slashes (S3 keys do), but a port is not a password
    (
        r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s@:/]*:(?!(?<!s3[an]?://[^\s@:/]*:)\d{2,5}/)[^\s@]+@",
        rf"\1{MASK}@",
        ("://",),
    ),
    (r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s@:/]{16,}@", rf"\1{MASK}@", ("://",)),
    (r"(?i)\b(jdbc:oracle:[a-z]+:)[^\s@/]+/[^\s@]+@", rf"\1{MASK}@", ("jdbc:oracle",)),
    # URLs that are secrets
    (
        r"(?i)\b(hooks\.slack\.com/\w+/|discord(?:app)?\.com/api/webhooks/|webhook\.office\.com/)[^\s\"'<>)]+",
        rf"\1{MASK}",
        ("hooks.slack.com", "webhooks/", "webhook.office"),
    ),
    (r"\b(?:bot)?\d{8,10}:AA[\w-]{33}", MASK, (":aa",)),
    (r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?", MASK, ("eyj",)),  # JSON web token
    (
        (
            r"\b(?:(?:AKIA|ASIA)[A-Z0-9]{16}|gh[pousr]_\w{20,}|github_pat_\w{20,}"
            r"|gl(?:pat|dt|rt|ft|soat|ptt|cbt|agent)-[\w-]{20,}|glsa_\w{32,}|xox[abeoprs]-[\w-]{10,}"
            r"|xapp-[\w-]{10,}|AIza[\w-]{35}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}|AGE-SECRET-KEY-1[A-Z0-9]{20,}"
            # but a host name can start with sk-, a country code
            r"|sk-(?=[\w-]*[A-Z])(?=[\w-]*\d)[\w-]{20,}|[spr]k_(?:live|test)_\w{16,}|whsec_\w{20,}"
            r"|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{20,}|dckr_[po]at_[\w-]{20,}|dapi[a-f0-9]{32}"
            r"|do[opr]_v1_[a-f0-9]{32,}|hv[sbr]\.[\w-]{20,}|hf_[A-Za-z0-9]{30,}|SG\.[\w-]{16,}\.[\w-]{16,}"
            r"|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32})"
        ),
        MASK,
        (
            *(
                "akia",
                "asia",
                "ghp_",
                "gho_",
                "ghu_",
                "ghs_",
                "ghr_",
                "github_pat_",
                "glpat-",
                "gldt-",
            ),
            *("glrt-", "glft-", "glsoat-", "glptt-", "glcbt-", "glagent-", "glsa_", "xox", "xapp-"),
            *("aiza", "ya29.", "gocspx-", "age-secret", "sk-", "k_live_", "k_test_", "whsec_"),
            *(
                "npm_",
                "pypi-",
                "dckr_",
                "dapi",
                "_v1_",
                "hvs.",
                "hvb.",
                "hvr.",
                "hf_",
                "sg.",
                "shp",
            ),
        ),
    ),
)

# An option whose key contains one of these words has a secret value.
_SECRET_KEY = re.compile(
    rf"(?:{_KEYS}|token|private|jaas|fs\.\w+\.key)",
    re.IGNORECASE,
)


def is_secret_key(key: str) -> bool:
    """Return whether the value of this option must always be masked.

    >>> is_secret_key("s3.secret-key"), is_secret_key("state.backend.type")
    (True, False)
    """
    return _SECRET_KEY.search(key) is not None


@functools.cache
def _searches() -> tuple[tuple[regex.Pattern[str], str, tuple[str, ...]], ...]:
    # Not `re`: these searches do not take linear time, and only `regex` has a timeout.
    # Imported here because `--help` and the list of rules do not need it.
    import regex

    return tuple((regex.compile(pattern), mask, literals) for pattern, mask, literals in _SECRETS)


def _apply_searches(text: str, numbers: Iterable[int]) -> str:
    """Apply these searches, but skip searches whose literals do not occur in the text.

    Looking for the literals takes a fiftieth of the time. Non-ASCII text gets every search, because case-insensitive
    patterns match more than the literals (the Kelvin sign matches k).
    """
    lowered = text.lower() if text.isascii() else None
    try:
        for number in numbers:
            pattern, mask, literals = _searches()[number]
            if lowered is None or any(literal in lowered for literal in literals):
                text = pattern.sub(mask, text, timeout=TIMEOUT_S)
    except TimeoutError:
        return WITHHELD
    return text


def mask_secrets(text: str) -> str:
    """Replace what are probably secrets with `***`: keys, tokens, passwords, credentials in URLs.

    >>> mask_secrets("jdbc:mysql://root:hunter2@db:3306/x?useSSL=false, api.key = 'abc'")
    'jdbc:mysql://***@db:3306/x?useSSL=false, api.key = ***'
    """
    return _apply_searches(text, range(len(_SECRETS)))


# Searches that do not depend on keywords or headers.
_BY_SHAPE: Final = tuple(
    number
    for number, (_, _, literals) in enumerate(_SECRETS)
    if literals is not _WORDS and not {"bearer", "cookie", "identified", "-u"} & set(literals)
)


def mask_credentials(text: str) -> str:
    """Mask only secrets with a recognizable shape. In a name, `token: Writer` is not a secret.

    >>> mask_credentials("tokens: Writer of https://ann:hunter2@host/")
    'tokens: Writer of https://***@host/'
    """
    return _apply_searches(text, _BY_SHAPE)
