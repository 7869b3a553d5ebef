"""The protocol's own test vectors, read from beside the project, and from inside the adcp wheel."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).resolve().parents[3] / "shared" / "vectors"


def bundled() -> dict[str, str]:
    """The wheel's sets: "3.2.4/" to the folder, with its slash. The package itself is not imported (10 s)."""
    spec = find_spec("adcp")
    assert spec is not None
    assert spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0]) / "_compliance"
    return {f"{one.name}/": f"{one}/test-vectors/" for one in sorted(folder.iterdir()) if one.is_dir()}


def load(name: str) -> Any:
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))


def load_folder(name: str) -> list[tuple[str, Any]]:
    return [
        (path.stem, json.loads(path.read_text("utf-8"))) for path in sorted((VECTORS / name).glob("*.json"))
    ]
