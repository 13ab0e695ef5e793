"""The stubs say what is there, and what is there the stubs say."""

import ast
import pathlib

import firn

# What every class has, or Python makes of what it has.
OWN = set(dir(object)) | {"__module__", "__getattr__", "__lt__", "__le__", "__gt__", "__ge__"}
# Slots that a sequence or mapping of PyO3 has beside the methods that it was given.
SLOTS = {"__add__", "__mul__", "__rmul__", "__iadd__", "__imul__", "__contains__", "__setitem__", "__delitem__"}


def stub():
    tree = ast.parse((pathlib.Path(firn.__file__).parent / "__init__.pyi").read_text())
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name, {f.name for f in node.body if isinstance(f, ast.FunctionDef)} - OWN


def test_classes_and_methods_are_those_of_the_stubs():
    there = {name: value for name, value in vars(firn).items() if isinstance(value, type)}
    said = dict(stub())
    assert set(said) == set(there)
    for name, value in there.items():
        if not issubclass(value, Exception):
            methods = set(vars(value)) - OWN
            assert said[name] - methods == set(), name
            assert methods - said[name] - SLOTS == set(), name
