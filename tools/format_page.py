"""The formats that can be opened: what each importer reads, as its module says it."""

from stepscope.core.importing import Importer
from stepscope.core.plugins import PluginGroup

__all__ = ["page"]

HEAD = """\
# Formats

*Generated from the importers by `tools/generate_docs.py`.*

`stepscope report`, `show`, `view` and `compare` open these files, and folders that hold them. The content of a file
tells its format, not its name. [Buckets and web servers](../how-to/cloud-storage.md) work too.
"""


def page() -> str:
    """Return docs/reference/formats.md."""
    importers = PluginGroup("importers", Importer)
    parts = [HEAD]
    for name in importers.names():
        parts += [f"## {name}\n", importers.page(name).strip() + "\n"]
    return "\n".join(parts)
