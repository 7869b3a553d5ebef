"""What the mutation run prints: a line for each module, then every mutant that no test saw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tests.mutants.making import Made


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One module: its mutants, how many of them were wanted, which were tried and seen or not, and those of
    functions that its tests never enter, by function."""

    made: Made
    wanted: int
    seen: Mapping[str, bool]
    unentered: Mapping[str, int]

    @property
    def unseen(self) -> list[str]:
        return sorted(mutant for mutant, seen in self.seen.items() if not seen)

    def line(self) -> str:
        """How far it came."""
        tried, unseen, of_all = len(self.seen), len(self.unseen), len(self.made.file.mutant_names)
        told = f"{self.made.module}: {self.wanted} of {of_all} chosen, {tried - unseen} seen, {unseen} not"
        left = self.wanted - tried
        return f"{told}; {left} not reached in its time" if left else told


def survivors(tried: Iterable[Tried]) -> Iterator[str]:
    """Each with what it changes; after them the functions that were never entered."""
    tried = list(tried)
    for one in tried:
        for mutant in one.unseen:
            yield f"\n{mutant}\n{one.made.difference(mutant)}"
    yield f"\n== {sum(len(one.unseen) for one in tried)} seen by no test"
    for one in tried:
        for function, mutants in one.unentered.items():
            yield f"never entered by these tests: {function} ({mutants} mutants)"
