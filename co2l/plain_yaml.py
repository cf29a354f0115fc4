"""YAML as anybody may have written it: plain values of a bounded size, or one error that says what is wrong.

Aliases and merge keys are read, but counted as often as they are used: a few lines of them can stand for any amount.
"""

from __future__ import annotations

import contextlib
import reprlib
from collections.abc import Iterator
from typing import Any

import yaml

from co2l.errors import Co2lError, commands_terminals, headline, shortened
from co2l.files import LONGEST

MOST = 50_000  # values
WIDEST = 2**63  # whole numbers are below it
_CORE = "tag:yaml.org,2002:"


def read_yaml(text: str, where: str) -> Any:
    """What the text holds; errors are at `where`."""
    with _errors(text, where):
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _check_size(node)
        return loader.construct_document(node)


def read_documents(text: str, where: str) -> list[Any]:
    """The same for a file with several documents."""
    found = []
    with _errors(text, where):
        loader = _Loader(text)
        while loader.check_node() and (node := loader.get_node()):
            _check_size(node)
            found.append(loader.construct_document(node))
    return found


@contextlib.contextmanager
def _errors(text: str, where: str) -> Iterator[None]:
    """Whatever the parser meets inside is one error that says where."""
    if len(text) > LONGEST:
        raise Co2lError(f"has more than {LONGEST:,} characters", where=where, fix="keep to what is needed")
    try:
        yield
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        what = f"not valid YAML{line}: {shortened(str(error.problem), 120)}"
        raise Co2lError(what, where=where, fix="correct that line") from None
    except RecursionError:
        raise Co2lError("not valid YAML: too deeply nested", where=where, fix="correct that value") from None
    except Exception as error:  # of the parser's own: a tag on a value that does not fit it raises any kind
        what = f"not valid YAML: {shortened(headline(error), 120)}"
        raise Co2lError(what, where=where, fix="correct that value") from None


class _Loader(yaml.SafeLoader):
    """Refuses what YAML would let pass in silence: a key that is there twice, and one that is not text."""

    yaml_implicit_resolvers = {  # noqa: RUF012  as yaml declares it; 2020-01-02 is a text like any other
        first: [(tag, pattern) for tag, pattern in resolvers if tag != f"{_CORE}timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    yaml_constructors = {  # noqa: RUF012
        tag: construct
        for tag, construct in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag.removeprefix(_CORE) in ("null", "bool", "int", "float", "str", "seq", "map")
    }

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        value = super().construct_scalar(node)
        if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
            value = value.encode("utf-16", "surrogatepass").decode("utf-16")  # JSON writes 𝜂 in two halves; one is none
        if isinstance(value, str) and commands_terminals(value.replace("\n", "").replace("\t", "")):
            problem = f"the text {reprlib.repr(value)} has a control character"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if key_node.tag == f"{_CORE}merge":
                continue
            if key_node.tag != f"{_CORE}str":
                problem = f"the key {reprlib.repr(key_node.value)} is not text (put it in quotes)"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            if key_node.value in seen:
                problem = f"the key '{key_node.value}' is there twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            seen.add(key_node.value)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        number = super().construct_yaml_int(node)
        if not -WIDEST < number < WIDEST:
            problem = f"the number {reprlib.repr(node.value)} is too large"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return int(number)


_Loader.add_constructor(f"{_CORE}int", _Loader.construct_yaml_int)


def _check_size(root: yaml.Node) -> None:
    """An error if the values, with everything that aliases repeat, are too many or never end."""
    sizes: dict[int, int] = {}
    open_now: set[int] = set()
    stack: list[tuple[yaml.Node, Iterator[yaml.Node]]] = [(root, _inside(root))]
    open_now.add(id(root))
    while stack:
        node, rest = stack[-1]
        below = next(rest, None)
        if below is None:
            stack.pop()
            open_now.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes[id(each)] for each in _inside(node))
            if sizes[id(node)] > MOST:
                problem = f"more than {MOST:,} values"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        elif id(below) in open_now:
            raise yaml.constructor.ConstructorError(None, None, "an alias of itself", below.start_mark)
        elif id(below) not in sizes:
            open_now.add(id(below))
            stack.append((below, _inside(below)))


def _inside(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from (key, value)
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value
