"""Pages in headless Chromium, as wide as a test asks, and what a script finds out about them."""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="chromium is not installed: no page is looked at in a browser"
)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --enable-logging=stderr "
    "--hide-scrollbars --run-all-compositor-stages-before-draw"
)
# A window of Chromium has a least width. So a page is shown in a frame, which has none; being a
# part of the file that is opened, it can be asked although it allows no scripts.
OPENED = """<!DOCTYPE html><meta charset="utf-8"><body style="margin:0">
<pre id="found"></pre><script>
const inspect = async (shown, page) => {{ {script} }};
const pages = {pages}, found = {{}};
const open = (text, width) => new Promise((done) => {{
  const frame = document.createElement("iframe");
  frame.style = `position:absolute;top:0;left:0;border:0;height:{height}px;width:${{width}}px`;
  frame.onload = () => done(frame);
  frame.srcdoc = text;
  document.body.append(frame);
}});
addEventListener("load", async () => {{
  for (const [name, [text, width]] of Object.entries(pages)) {{
    const frame = await open(text, width);
    try {{
      found[name] = await inspect(frame.contentWindow, frame.contentDocument);
    }} catch (error) {{
      found[name] = String(error.stack);
    }}
    frame.remove();
  }}
  document.getElementById("found").textContent = JSON.stringify(found);
}});
</script>"""


def ask(
    pages: Mapping[str, tuple[str, int]],
    script: str,
    folder: Path,
    *,
    height: int = 900,
    more: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Return what a script finds in every page, given as HTML and a width, by name.

    The script has the window `shown` and the document `page`, and returns what JSON can hold. The
    clock of the browser does not wait for time that passes without work.
    """
    assert CHROMIUM is not None
    file, held = folder / "opened.html", json.dumps(dict(pages)).replace("<", "\\u003c")
    file.write_text(OPENED.format(pages=held, script=script, height=height), encoding="utf-8")
    profile = f"--user-data-dir={folder / 'profile'}"
    size = f"--window-size=1500,{height}"
    waiting = ("--virtual-time-budget=60000", "--dump-dom", file.as_uri())
    shown = subprocess.run(
        [CHROMIUM, *FLAGS.split(), profile, size, *more, *waiting],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert [line for line in shown.stderr.splitlines() if "CONSOLE" in line] == []
    text = re.search(r'<pre id="found">(.*?)</pre>', shown.stdout, re.DOTALL)
    assert text is not None
    assert text[1], "the script did not come to an end"
    found: dict[str, Any] = json.loads(unescape(text[1]))
    return found
