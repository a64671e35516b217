"""The table of rules on the page of conformance: taken from the rules, put onto the page by this.

``python docs/_scripts/conformance_page.py`` rewrites it; ``tests/checks/test_conformance.py`` holds the page to
it.
"""

from __future__ import annotations

from generated import ROOT, table, with_parts

from hdmf_zarr_backend.checks.conformance import RULES

PAGE = ROOT / "docs" / "explanation" / "conformance.md"


def page() -> str:
    """Return the page as it should be."""
    rules = [(f"`{rule.name}`", rule.section, rule.demand) for rule in RULES.values()]
    remarks = [(f"`{rule.name}`", rule.remark) for rule in RULES.values() if rule.remark]
    texts = {
        "rules": table(["rule", "section", "what must hold"], rules),
        "remarks": table(["rule", "why it may stay"], remarks),
    }
    return with_parts(PAGE.read_text(encoding="utf-8"), texts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
