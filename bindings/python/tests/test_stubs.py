"""The stubs and the module declare the same names."""

import ast
import pathlib

import firn

# Attributes that every class has, or that Python derives.
OWN = set(dir(object)) | {"__module__", "__getattr__", "__lt__", "__le__", "__gt__", "__ge__"}
# Slots that PyO3 adds to a sequence or mapping.
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
