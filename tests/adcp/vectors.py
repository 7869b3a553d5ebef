"""The protocol's own test vectors, read from beside the project; the folder may be absent."""

import json
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).resolve().parents[3] / "shared" / "vectors"


def load(name: str) -> Any:
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))


def load_folder(name: str) -> list[tuple[str, Any]]:
    return [
        (path.stem, json.loads(path.read_text("utf-8"))) for path in sorted((VECTORS / name).glob("*.json"))
    ]
