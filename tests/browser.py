"""A headless Chromium that tests talk to over a pipe, without any package.

Input is sent as a user gives it (mouse, keys, touch), and scripts run beside the page, so that its
security policy stays as it is.
"""

import base64
import json
import os
import re
import select
import shutil
import subprocess
import time

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


class Browser:
    """One browser; `open` gives a page of a file in it."""

    def __init__(self, folder):
        self.folder = folder
        to_read, to_write = os.pipe(), os.pipe()

        def connect():
            # Chromium reads commands from 3 and answers on 4.
            for fd, place in ((to_read[0], 13), (to_write[1], 14)):
                os.dup2(fd, place)
            os.dup2(13, 3)
            os.dup2(14, 4)

        command = [CHROMIUM, *OPTIONS, f"--user-data-dir={folder / 'profile'}"]
        command.append(f"--log-net-log={folder / 'network.json'}")
        self.process = subprocess.Popen(
            [*command, "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=connect,
            close_fds=False,
        )
        os.close(to_read[0])
        os.close(to_write[1])
        self.commands, self.answers = to_read[1], to_write[0]
        self.number, self.buffer, self.events = 0, b"", []

    def send(self, method, session=None, timeout=60, **parameters):
        """The answer to a command."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.commands, data) :]
        end = time.monotonic() + timeout
        while True:
            answer = self._receive(end, method)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def _receive(self, end, method):
        while b"\0" not in self.buffer:
            if not select.select([self.answers], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"chromium does not answer {method}")
            data = os.read(self.answers, 1 << 20)
            if not data:
                raise RuntimeError("chromium has ended")
            self.buffer += data
        answer, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(answer)

    def open(self, path, **options):
        return Page(self, path, **options)

    def close(self):
        """End it; what it asked of the network is then in its log."""
        try:
            self.send("Browser.close", timeout=10)
        except (RuntimeError, TimeoutError, OSError):
            self.process.kill()
        self.process.wait(timeout=20)
        os.close(self.commands)
        os.close(self.answers)

    def hosts_asked(self):
        """Hosts that were asked for anything, but for those that the browser itself calls."""
        log = (self.folder / "network.json").read_text(errors="replace")
        hosts = set(re.findall(r'"url":"https?://([^/"]+)', log))
        own = (".google.com", ".googleapis.com", ".gvt1.com")
        return {host for host in hosts if not host.endswith(own)}


class Page:
    """A page in a tab of its own; `downloads` is the folder that it saves to."""

    def __init__(self, browser, path, *, width=1200, height=900, dark=False, touch=False):
        self.browser = browser
        target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        self.target = target
        attached = browser.send("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        self.downloads = browser.folder / f"downloads-{target}"
        self.downloads.mkdir()
        browser.send(
            "Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads)
        )
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        self.resize(width, height, touch=touch)
        self.send(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        start = time.monotonic()
        self.send("Page.navigate", url=path.as_uri())
        self.wait('document.readyState === "complete"')
        if self.run('document.getElementById("map") !== null'):
            self.wait('document.documentElement.dataset.ready === "yes"')
        self.seconds_to_open = time.monotonic() - start

    def send(self, method, **parameters):
        return self.browser.send(method, self.session, **parameters)

    def resize(self, width, height, touch=False):
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=touch,
        )
        self.send("Emulation.setTouchEmulationEnabled", enabled=touch)

    def run(self, script):
        """The value of an expression, or of a promise."""
        answer = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:800])
        return answer["result"].get("value")

    def wait(self, condition, timeout=30):
        end = time.monotonic() + timeout
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < end, f"never came true: {condition}"
            time.sleep(0.02)

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)}).textContent")

    def visible(self, selector):
        find = f"document.querySelector({json.dumps(selector)})"
        return self.run(f"{find} !== null && {find}.getClientRects().length > 0")

    def place(self, selector):
        """x, y, width and height on the screen, which it is scrolled into."""
        find = f"document.querySelector({json.dumps(selector)})"
        return self.run(
            f"(() => {{ const e = {find};"
            " e.scrollIntoView({block: 'center', behavior: 'instant'});"
            " const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })()"
        )

    def click(self, selector):
        x, y, width, height = self.place(selector)
        self.mouse("mousePressed", x + width / 2, y + height / 2)
        self.mouse("mouseReleased", x + width / 2, y + height / 2)

    def mouse(self, kind, x, y, **more):
        parts = {"button": "left", "clickCount": 1} if kind != "mouseMoved" else {}
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **{**parts, **more})

    def drag(self, start, end, modifiers=0):
        self.mouse("mousePressed", *start, modifiers=modifiers)
        for part in (0.5, 1.0):
            x, y = (a + part * (b - a) for a, b in zip(start, end, strict=True))
            self.mouse("mouseMoved", x, y, button="left", buttons=1, modifiers=modifiers)
        self.mouse("mouseReleased", *end, modifiers=modifiers)

    def wheel(self, x, y, delta, modifiers=0):
        self.send(
            "Input.dispatchMouseEvent",
            type="mouseWheel",
            x=x,
            y=y,
            deltaX=0,
            deltaY=delta,
            modifiers=modifiers,
        )

    def key(self, name, text=None, modifiers=0):
        parts = {"key": name, "modifiers": modifiers} | ({"text": text} if text else {})
        self.send("Input.dispatchKeyEvent", type="keyDown", **parts)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=name, modifiers=modifiers)

    def write(self, text):
        self.send("Input.insertText", text=text)

    def picture(self, path, whole=False):
        data = self.send("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def downloaded(self, name, timeout=20):
        """The file that the page saved under this name."""
        end, path = time.monotonic() + timeout, self.downloads / name
        while not path.exists() or list(self.downloads.glob("*.crdownload")):
            self.run("0")  # lets the browser go on
            assert time.monotonic() < end, f"{name} was never saved"
            time.sleep(0.02)
        return path

    def complaints(self):
        """Errors and refusals of the page, in the words of the browser."""
        self.run("0")
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            if event["method"] == "Log.entryAdded":
                found.append(event["params"]["entry"]["text"])
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(event["params"])[:500])
        return found

    def close(self):
        self.browser.send("Target.closeTarget", targetId=self.target)
