"""English of the code: counters with goals, words not to be written, first words of docstrings.

Counted over docstrings, comments and function names. `pytest -s` prints the table.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[1]
FOLDERS = ("kubedsm", "plans", "loadgen", "lab")

#: first words of docstrings that open a relative clause or a question
RELATIVE = {
    *("what", "who", "whom", "whose", "whether", "of", "those", "how", "where", "which", "when"),
    *("that", "so"),
}
#: first words that name no subject, or describe instead of naming
VAGUE = {
    *RELATIVE,
    "whatever",
    "whoever",
    "it",
    "they",
    "these",
    "such",
    "told",
    "asked",
    "returns",
}
PRONOUNS = {
    *("it", "they", "them", "that", "those", "these", "what", "which", "who", "whom", "one"),
    *("ones", "its", "this", "such", "so"),
}
IRREGULAR = {
    *("told", "said", "heard", "found", "seen", "dealt", "chosen", "taken", "given", "made"),
    *("held", "kept", "left", "gone", "known", "shown", "done", "begun", "bound", "met", "sent"),
    *("drawn", "written", "meant", "built", "thought", "brought", "felt", "spent", "led", "lost"),
}
NOT_PARTICIPLES = {"need", "feed", "speed", "seed", "embed", "shed"}
LONG = "words of nine letters or more"
#: share that each counter must not exceed; of long words, must reach
GOALS = {
    "docstrings that open with What, Who, Whether, Of, ...": 0.03,
    "pronouns and demonstratives in prose": 0.05,
    LONG: 0.09,
    "functions named by a participle": 0.03,
    "functions with a one-word name": 0.45,
}
#: not written in docstrings and comments, with occurrences that are left: lower them only
WORDS = {
    r"anew": 0,
    r"anybody|nobody|somebody|whoever": 0,
    r"beside": 0,
    r"beyond the bounds": 0,
    r"by leave of": 0,
    r"dealt out|evened out": 0,
    r"gives? way": 0,
    r"given back|put back|taken back|taking in": 0,
    r"hears?": 0,
    r"held room|left behind": 0,
    r"in haste|not steady": 0,
    r"is said": 0,
    r"let pass|set apart|bring back": 0,
    r"likes|minds": 0,
    r"points of QoS": 0,
    r"so many": 0,
    r"story|house|lanes?": 0,
    r"thinking|thoughts?|thought about": 0,
    r"told": 0,
}
#: further words that are not written in texts that an operator reads
OPERATOR_WORDS = (
    r"cut off|not steady|site back",
    r"is moved|are moved|moves a run|moves nothing|was asked for",
    r"looked at",
    r"(?:make|makes|made|no|free|there is) room",
    r"promis(?:e|es|ed)",
    r"taken back",
    r"beyond the bounds",
)


#: a tokenizer for nothing but comments is 20 times faster than the library's
STRING_OR_COMMENT = re.compile(
    r'''"""(?:\\.|[^\\])*?"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|(#[^\n]*)''', re.DOTALL
)


@attrs.frozen
class Source:
    """Prose and names of one module."""

    path: str
    #: (name, docstring)
    docstrings: list[tuple[str, str]]
    comments: list[str]
    functions: list[str]
    #: string literals of several words, without docstrings
    messages: list[str]


@cache
def read_sources() -> list[Source]:
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return [read_source(path) for path in paths]


def read_source(path: Path) -> Source:
    text = path.read_text(encoding="utf-8")
    nodes = list(ast.walk(ast.parse(text)))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return Source(
        str(path.relative_to(ROOT)),
        [
            (getattr(node, "name", path.stem), docstring)
            for node in nodes
            if isinstance(node, documented) and (docstring := ast.get_docstring(node))
        ],
        [comment.lstrip("#: ") for comment in STRING_OR_COMMENT.findall(text) if comment],
        [
            node.name.strip("_")
            for node in nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_named_freely(node)
        ],
        list_messages(nodes),
    )


def list_messages(nodes: list[ast.AST]) -> list[str]:
    statements = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    constants = [node for node in nodes if isinstance(node, ast.Constant)]
    texts = [each.value for each in constants if id(each) not in statements]
    return [text for text in texts if isinstance(text, str) and " " in text.strip()]


def is_named_freely(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return False for properties and special methods."""
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    return not node.name.startswith("__") and not any(
        "property" in decorator or re.fullmatch(r"\w+(\.\w+)+", decorator)
        for decorator in decorators
    )


def read_all(paths: Iterable[Path]) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


def is_participle(word: str) -> bool:
    return word in IRREGULAR or (
        word.endswith("ed") and len(word) > 3 and word not in NOT_PARTICIPLES
    )


def first_word(docstring: str) -> str:
    return (re.findall(r"[A-Za-z0-9-]+", docstring) or [""])[0].lower()


def list_prose() -> list[str]:
    return [
        text
        for source in read_sources()
        for text in (*(docstring for _, docstring in source.docstrings), *source.comments)
    ]


def count_shares() -> dict[str, float]:
    docstrings = [text for source in read_sources() for _, text in source.docstrings]
    functions = [name for source in read_sources() for name in source.functions]
    words = re.findall(r"[A-Za-z']+", "\n".join(list_prose()).lower())
    shares = (
        sum(first_word(text) in RELATIVE for text in docstrings) / len(docstrings),
        sum(word in PRONOUNS for word in words) / len(words),
        sum(len(word) >= 9 for word in words) / len(words),
        sum(is_participle(name.split("_")[0]) for name in functions) / len(functions),
        sum("_" not in name for name in functions) / len(functions),
    )
    return dict(zip(GOALS, shares, strict=True))


def test_counters_meet_their_goals():
    shares, missed = count_shares(), []
    for label, goal in GOALS.items():
        good = shares[label] >= goal if label == LONG else shares[label] <= goal
        sign = ">=" if label == LONG else "<="
        sys.stdout.write(
            f"{'ok  ' if good else 'MISS'} {shares[label]:6.1%}  goal {sign} {goal:.0%}  {label}\n"
        )
        missed += [] if good else [label]
    assert missed == []


def found_in(words: Iterable[str], texts: list[str]) -> list[tuple[str, str]]:
    """Return each occurrence of a word, and the text that has it."""
    patterns = [(word, re.compile(rf"\b(?:{word})\b", re.IGNORECASE)) for word in words]
    anything = re.compile(rf"\b(?:{'|'.join(words)})\b", re.IGNORECASE)
    return [
        (word, text)
        for text in texts
        if anything.search(text)
        for word, pattern in patterns
        for _ in pattern.findall(text)
    ]


def test_words_are_not_written():
    found = found_in(WORDS, list_prose())
    count = Counter(word for word, _ in found)
    assert [each for each in found if count[each[0]] > WORDS[each[0]]] == []


def test_words_are_not_written_to_an_operator():
    """Words of `WORDS` and others in messages, help, metric texts, dashboard and alerts."""
    messages = [text for source in read_sources() for text in source.messages]
    monitoring = (ROOT / "manifests/components/monitoring").iterdir()
    panels = re.findall(r'(?:"title"|"description"|summary): "?[^"\n]*', read_all(monitoring))
    assert found_in([*WORDS, *OPERATOR_WORDS], [*messages, *panels]) == []


@cache
def read_pages() -> dict[str, str]:
    """Prose of the pages: without commands, headings, tables and generated parts."""
    printed = re.compile(
        r"```.*?```|`[^`]*`|<!-- generated.*?<!-- end|^[|#].*?$", re.DOTALL | re.MULTILINE
    )
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    return {
        str(page.relative_to(ROOT)): printed.sub("", page.read_text(encoding="utf-8"))
        for page in pages
    }


def test_words_are_not_written_on_a_page():
    lines = [f"{page}: {line}" for page, text in read_pages().items() for line in text.splitlines()]
    assert found_in(WORDS, lines) == []


def test_pages_have_few_pronouns():
    words = re.findall(r"[A-Za-z']+", "\n".join(read_pages().values()).lower())
    share = sum(word in PRONOUNS for word in words) / len(words)
    assert share <= GOALS["pronouns and demonstratives in prose"]


def test_public_docstrings_open_with_a_noun_or_an_imperative():
    found = Counter(
        f"{source.path}: {name}: {docstring.splitlines()[0]}"
        for source in read_sources()
        for name, docstring in source.docstrings
        if not name.startswith("_") and first_word(docstring) in VAGUE
    )
    assert sorted(found) == []
