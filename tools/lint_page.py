"""The page of static checks, from their modules' docstrings and examples."""

from stepscope.lint.check import CHECKS

__all__ = ["page"]

HEAD = """\
# Static checks

*Generated from the checks by `tools/generate_docs.py`.*

`stepscope lint FILES` finds lines like those below without running anything. `stepscope lint RUN` checks the files of a
recorded job and adds the time measured at each line. Code under an `if` may run rarely, so it is not reported. To leave
a line out, end it with `# stepscope: ignore` or `# stepscope: ignore[NAME]`.

```bash
stepscope lint train.py
stepscope lint stepscope-runs/RUN
```
"""


def page() -> str:
    """docs/reference/lint.md."""
    parts = [HEAD]
    for name, check in CHECKS.load().items():
        slow, fixed = (code.strip("\n") for code in (check.example, check.fixed))
        told = CHECKS.page(name).strip()
        parts.append(f"## {name}\n\n{told}\n\nSlow:\n\n```python\n{slow}\n```\n\nFixed:\n\n```python\n{fixed}\n```\n")
    return "\n".join(parts)
