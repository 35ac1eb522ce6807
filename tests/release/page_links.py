"""The files within a page."""

import base64
import re


def links(page):
    """Names and contents of the files that a page offers."""
    found = re.findall(r'<a href="data:[^;]*;base64,([^"]*)" download="([^"]*)"', page)
    return {name: base64.b64decode(content, validate=True) for content, name in found}
