"""Modules imported mutated: each function with its mutants beside it, of which the environment names one."""

from __future__ import annotations

import difflib
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from mutmut.mutation import trampoline
from mutmut.mutation.file_mutation import MutatedFile, mutate_file_contents
from mutmut.mutation.trampoline_templates import GENERATED_MARKER

_CHOSEN = "MUTANT_UNDER_TEST"
_STATS = "stats"  # mutmut's word: calls are told of, and nothing is mutated
_BETWEEN = "__mutmut_"


@dataclass(frozen=True)
class Made:
    """The mutants of one module."""

    module: str
    file: MutatedFile

    def by_function(self) -> Mapping[str, Sequence[str]]:
        """The mutants' names, by that of their function as `entered` tells it."""
        found = defaultdict(list)
        for name in self.file.mutant_names:
            found[function_of(f"{self.module}.{name}")].append(f"{self.module}.{name}")
        return found

    def difference(self, mutant: str) -> str:
        """What is changed, as a patch without its head."""
        name = mutant.rpartition(".")[2]
        before, after = (self._lines(one) for one in (f"{name.rpartition(_BETWEEN)[0]}{_BETWEEN}orig", name))
        lines = difflib.unified_diff(before, after, lineterm="", n=1)
        return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))

    def _lines(self, name: str) -> list[str]:
        span = self.file.line_span_by_function_name[name]
        lines = self.file.code.splitlines()[span.start - 1 : span.end]
        return [line.replace(GENERATED_MARKER, "").rstrip().replace(name, "…") for line in lines]


class Finder:
    """Finds the modules that are to be mutated; `made` holds them once they are imported."""

    def __init__(self, modules: Iterable[str]) -> None:
        self._modules = frozenset(modules)
        self.made: dict[str, Made] = {}

    def install(self) -> None:
        known = self._modules & sys.modules.keys()
        assert not known, f"imported already: {known}"
        sys.meta_path.insert(0, self)  # type: ignore[arg-type]

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name in self._modules else None
        if spec is None or spec.origin is None:
            return None
        spec.loader = _Loader(name, spec.origin, self.made)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, name: str, origin: str, made: dict[str, Made]) -> None:
        super().__init__(name, origin)
        self._made = made

    def get_code(self, fullname: str) -> CodeType:
        file = mutate_file_contents(self.path, Path(self.path).read_text())
        self._made[fullname] = Made(fullname, file)
        return compile(file.code, self.path, "exec", dont_inherit=True)


def function_of(mutant: str) -> str:
    """The function that a mutant is of."""
    return mutant.rpartition(_BETWEEN)[0]


def tell_of_calls(entered: Callable[[str], object]) -> None:
    """From now on nothing is mutated, and every call of a function that has mutants is told."""
    os.environ[_CHOSEN] = _STATS
    trampoline.record_trampoline_hit = lambda name, **_named: entered(name)


def choose(mutant: str) -> None:
    """From now on, in this process, this mutant stands in the place of its function."""
    trampoline.set_mutant_under_test(mutant)
