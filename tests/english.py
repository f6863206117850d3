"""Finds wording that does not read as plain English: `python -m tests.english [PATH…]`.

The checks are the mechanical part of the style standard: words and phrases that have a plainer equivalent,
sentences that open with a free relative ("What was read is …"), and sentences of more than 30 words. They
cover docstrings, comments, string literals of the product, Markdown, and the data files. The names that a
module defines must not contain such words either.

A line that has to quote one of these words carries the comment `english: quoted`.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import subprocess
import sys
import tempfile
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
MOST_WORDS: Final = 30
ALLOWED: Final = "english: quoted"

WORDS: Final[dict[str, str]] = {
    r"mend(?:s|ed|ing)?": "fix, repair",
    r"(?:begins? )?anew": "again, start over, recreate",
    r"ask(?:s|ed|ing)? for": "request, require, need",
    r"in vain": "without success, all failed",
    r"go(?:es)? on|went on|going on": "continue, resume",
    r"told|tells?|says?|said": "show, report, contain, print, name",
    r"(?:stands?|stood) (?:in|at|above|below|behind|beside|there)": "is in, is listed in",
    r"what is more|moreover|thus|hence": "(delete)",
    r"whoever|nobody|somebody|anybody": "name the person or the process",
    r"by (?:it|them)selves|by itself": "on its own, automatically",
    r"h[oe]lds? up|held up|holding up": "block, delay",
    r"(?:stands?|stood) still|standstill": "stall, pause",
    r"at hand": "available",
    r"no more(?! (?:\w+ )?than| frequent)": "no longer",
    r"besides?": "in addition to, next to, along with",
    r"dear(?:est)?": "expensive, slowest",
    r"reckon(?:s|ed|ing)?": "calculate",
    r"little headroom|little room": "low headroom",
    r"means? the same": "are equivalent",
    r"sees? to it|sees that": "make sure",
    r"keeps? pace": "keep up",
    r"cannot tell|can tell": "cannot determine",
    r"not(?:hing)? (?:in it )?(?:was|is|were) understood": "flowdiag recognized none of its lines",
    r"likely so": "probably",
    r"put(?:s|ting)? right": "correct",
    r"time-outs?": "timeout",
    r"the web interface": "the Web UI",
    r"is (?:told|said)|are (?:told|said)": "is shown, is reported",
    r"a blank(?! line)|blanks": "a space",
    r"let(?:s)? (?:the|it|them|a|an|each|Flink|Spark|barriers|single|others?)": "allow, configure … to",
    r"worth while|forthwith|thereof|therein|whereof|wherein|thereby|whereby": "plain words",
    r"meanwhile": "as a stopgap, while …",
    r"of one that|that which|those that it": "name the thing",
    r"makes? of it|comes? of it|became of": "name the outcome",
    r"is off by": "differs by",
    r"does not know which|do not know which": "name the reader's situation",
    r"lets? (?:nothing|in|through)": "permit, admit, pass",
    r"suffices?": "is enough",
    r"(?:(?:de)?serial|initial|author|organ|normal|optim|summa[r]|util|synchron|final)is(?:e[ds]?|ing|ation)": "US spelling",
    r"behaviours?|colours?|levelled|labelled|analysed": "US spelling",
    r"(?:flink|spark)\.md": "(delete: no such file in the repository)",
    r"(?<=, )else(?= (?:the|its|that|of|from|by)\b)": "or, without one,",
}
_WORDS: Final = [
    (re.compile(rf"(?<![\w-])(?:{w})(?![\w-])", re.IGNORECASE), use) for w, use in WORDS.items()
]
# Words of identifiers: functions, classes, parameters, variables and modules.
NAMES: Final[dict[str, str]] = {
    r"told|tells?|says?|said|spoken|speaks": "text, values, reports",
    r"wanted|ask(?:s|ed|ing)": "required, expected, requested, selected",
    r"usual": "typical, median, expected",
    r"lacking": "missing",
    r"standstill": "stall",
    r"mend(?:s|ed|ing)?": "fix, repair",
    r"besides?": "next_to, siblings",
    r"blanks?": "empty, space",
    r"reckon(?:s|ed|ing)?": "calculate",
    r"dear(?:est)?": "expensive, slowest",
    r"knows?|meant": "has, expected",
    r"odd|lone": "unusual, malformed, single",
    r"whom|whence|whoever|nobody|somebody": "name the person, process or origin",
    r"anew|vain|forthwith|thereof|therein|whereof|wherein": "plain words",
}
NAMES_ALLOWED: Final = {
    "tell": "a method of Python's files",
    "odd": "the opposite of even",
}
_NAMES: Final = [(re.compile(words), use) for words, use in NAMES.items()]
_NAME_PART: Final = re.compile(r"_|(?<=[a-z0-9])(?=[A-Z])")
_RELATIVE: Final = re.compile(r"(?:What|Who|Whoever|Whatever|Which)\b(?! if\b)[^?]*$", re.DOTALL)
_SENTENCE: Final = re.compile(
    r"(?<=[.!?])[)\"'”*]*\s+(?=[A-Z`\"'(]|flowdiag)|\n\s*\n|\n\s*(?=[-*|#] |\d+\. )"
)
# A version number without its product at the start of a sentence.
_BARE_VERSION: Final = re.compile(r"(?:Up to|From|Since|Before|In) \d\.\d+\b")
# Pages that repeat checked texts of the code, with options and values behind them.
# Tables of these pages contain the names of scenarios and pastes, which other files refer to.
GENERATED: Final = frozenset({"actions.md", "rules.md", "cli.md"})
_INDENTED: Final = re.compile(r"(?<=\n\n)(?: {4}.*\n|\n(?= {4}))+")
_CODE: Final = re.compile(
    r"```.*?```|~~~.*?~~~|`[^`\n]*`|<!--.*?-->|https?://\S+|>>> .*", re.DOTALL
)
_QUOTED: Final = re.compile(r"\"[^\"\n]{1,200}\"|“[^”\n]*”")
_WORD: Final = re.compile(r"[^\W\d_][\w'’-]*")


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of prose: where it starts, and whether its sentences are judged for length and opening."""

    path: str
    line: int
    text: str
    prose: bool = True


@dataclass(frozen=True, slots=True)
class Problem:
    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


def problems_in(piece: Text) -> Iterator[Problem]:
    """Yield the problems in one piece of prose."""
    text = _CODE.sub(lambda m: "\n" * m[0].count("\n") or "X", piece.text)
    plain = _QUOTED.sub("X", text)
    for pattern, use in _WORDS:
        for match in pattern.finditer(plain):
            line = piece.line + plain.count("\n", 0, match.start())
            yield Problem(piece.path, line, f"{match[0]!r}: write {use}")
    if not piece.prose:
        return
    start = 0
    for sentence in _SENTENCE.split(text):
        at = text.find(sentence, start)
        start = at + len(sentence)
        line = piece.line + text.count("\n", 0, at + len(sentence) - len(sentence.lstrip()))
        shown = " ".join(sentence.split())
        if "|" in shown:
            continue  # a row of a table
        if _RELATIVE.match(shown):
            yield Problem(piece.path, line, f"opens with a free relative: {shown[:70]!r}")
        if _BARE_VERSION.match(shown):
            yield Problem(piece.path, line, f"name the product of the version: {shown[:70]!r}")
        if (count := len(_WORD.findall(shown))) > MOST_WORDS:
            yield Problem(piece.path, line, f"{count} words in a sentence: {shown[:70]!r}")


def docstring_nodes(tree: ast.AST) -> list[ast.Constant]:
    """Return the docstrings of a module, its functions, classes and attributes."""
    found: list[ast.Constant] = []
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for statement in body:  # attribute docstrings as well
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                found.append(value)
    return found


def defined_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the names that a module defines, with their lines."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr
            case ast.alias(asname=str(name)):
                yield node.lineno, name


def name_problems(path: Path) -> Iterator[Problem]:
    """Yield the names of a module and of its definitions that contain a banned word."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for line, name in ((1, path.stem), *defined_names(tree)):
        if name in NAMES_ALLOWED:
            continue
        for part in _NAME_PART.split(name):
            for pattern, use in _NAMES:
                if pattern.fullmatch(part.lower()):
                    shown = str(path.relative_to(ROOT))
                    yield Problem(shown, line, f"{part!r} in the name {name!r}: write {use}")


_SECTION: Final = re.compile(r"^\s*(?:Args|Returns|Raises|Yields):\s*$", re.MULTILINE)
_PARAMETER: Final = re.compile(r"^\s+[\w, *]+: (?=\S)", re.MULTILINE)
_UNDERLINE: Final = re.compile(r"^.+\n\s*[-=~]{4,}\s*$", re.MULTILINE)


def _prose(docstring: str) -> str:
    """Make each section, heading and parameter of a docstring a paragraph, keeping line numbers."""
    text = inspect.cleandoc(docstring).replace("\b\n", "\n")
    text = _UNDERLINE.sub(lambda m: "\n" * m[0].count("\n"), text)
    text = re.sub(r"(?<=Examples:\n)(?: +.*\n)+", lambda m: "\n" * m[0].count("\n"), text)
    text = _INDENTED.sub(lambda m: "\n" * m[0].count("\n"), _SECTION.sub("", text))
    return _PARAMETER.sub(lambda m: "\n" if m[0].startswith("\n") else "\n\n", text)


def _visible(node: ast.AST) -> str | None:
    """Return a literal that looks like a sentence, with X for interpolated values, or None."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(v.value) if isinstance(v, ast.Constant) else "X" for v in node.values)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


def python_texts(path: Path, *, literals: bool) -> Iterator[Text]:
    """Yield the docstrings and comments of a module and, for the product, its string literals."""
    source = path.read_text(encoding="utf-8")
    name, lines = str(path.relative_to(ROOT)), source.splitlines()
    tree = ast.parse(source)
    docs = docstring_nodes(tree)
    for node in docs:
        if ALLOWED not in lines[node.end_lineno - 1 if node.end_lineno else node.lineno - 1]:
            yield Text(name, node.lineno, _prose(str(node.value)))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and ALLOWED not in token.string:
            yield Text(name, token.start[0], token.string.lstrip("#: "), prose=False)
    if not literals:
        return
    documented = {id(node) for node in docs}
    inside = {id(v) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for v in n.values}
    for literal in ast.walk(tree):
        if (
            id(literal) in documented
            or id(literal) in inside
            or (text := _visible(literal)) is None
        ):
            continue
        assert isinstance(literal, ast.expr)
        first, last = literal.lineno, literal.end_lineno or literal.lineno
        if any(ALLOWED in line for line in lines[first - 1 : last]):
            continue
        if (
            len(_WORD.findall(text)) >= 3
            and " " in text
            and not re.search(r"\\|\(\?|\bSELECT\b", text)
        ):
            yield Text(name, first, text)


def markdown_texts(path: Path) -> Iterator[Text]:
    """Yield a Markdown page as one piece, without its indented code."""
    text = _INDENTED.sub(lambda m: "\n" * m[0].count("\n"), path.read_text(encoding="utf-8"))
    text = re.sub(r"<br>\d+\. |(?<=\|) 1\. ", ". ", text)  # lists in the cells of tables
    yield Text(str(path.relative_to(ROOT)), 1, text, prose=path.name not in GENERATED)


_PROSE: Final = frozenset(
    {"meaning", "explanation", "text", "risk", "verify", "measure", "what", "shows"}
)


def data_texts(path: Path) -> Iterator[Text]:
    """Yield the comments of a TOML file, and the prose of the causes."""
    name, source = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    for number, line in enumerate(source.splitlines(), 1):
        if line.lstrip().startswith("#") and ALLOWED not in line:
            yield Text(name, number, line.lstrip("# "), prose=False)
    if name.startswith("analyses/"):
        data = tomllib.loads(source)
        sentences = (text for table in data.values() for text in table.values())
        if path.name == "signals.toml":
            sentences = (reason for table in data.values() for _, reason in table.values())
        listed = path.name in ("explanations.toml", "signals.toml")
        for text in sentences if listed else _prose_values(data):
            first = source.count("\n", 0, max(0, source.find(text[:30]))) + 1
            yield Text(name, first, text)


def _prose_values(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in _PROSE and isinstance(inner, str):
                yield inner
            else:
                yield from _prose_values(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _prose_values(inner)


PRODUCT: Final = ("analyses", "cli", "parsers", ".package")
OTHERS: Final = ("tests", "fixtures", "benchmarks")


def files(paths: Iterable[str] = ()) -> Iterator[Path]:
    """Yield the tracked files under these paths, by default the whole repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    for name in sorted(filter(None, listed)):
        path = ROOT / name
        if path.is_file() and not path.is_symlink() and not name.startswith("fixtures/recordings/"):
            yield path


def texts(paths: Iterable[str] = ()) -> Iterator[Text]:
    """Yield every piece of prose under some paths."""
    for path in files(paths):
        top = path.relative_to(ROOT).parts[0]
        if path == Path(__file__).resolve():
            continue
        if path.suffix == ".py":
            yield from python_texts(path, literals=top in PRODUCT)
        elif path.suffix == ".md":
            yield from markdown_texts(path)
        elif path.suffix == ".toml" and top in PRODUCT:
            yield from data_texts(path)


def problems(paths: Iterable[str] = ()) -> list[Problem]:
    """List the wording problems in all texts and names under these paths."""
    found = [problem for piece in texts(paths) for problem in problems_in(piece)]
    modules = (path for path in files(paths) if path.suffix == ".py")
    return found + [problem for path in modules for problem in name_problems(path)]


def proselint(paths: Iterable[str] = ()) -> int:
    """Run proselint on the Markdown pages without code and tables, and return its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        for piece in texts(paths or ["*.md"]):
            prose = _CODE.sub("", piece.text)
            prose = "\n".join(line for line in prose.splitlines() if not line.startswith("|"))
            Path(folder, piece.path.replace("/", "__")).write_text(prose, encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "proselint",
            "--config",
            ".proselintrc.json",
            "check",
            folder,
        ]
        return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    if sys.argv[1:2] == ["--proselint"]:
        sys.exit(proselint(sys.argv[2:]))
    found = problems(sys.argv[1:])
    print(*found, f"{len(found)} problems", sep="\n")
    sys.exit(bool(found))
