"""A browser that tests drive: Debian's Chromium by its driver, over plain WebDriver, and without any other package."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

#: Under these names the key of an element and keys that are no letters are known to WebDriver.
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "ArrowDown": "\ue015", "ArrowUp": "\ue013", "ArrowRight": "\ue014", "Tab": "\ue004"}

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]


def programs():
    """Browser and driver, or None where one is missing."""
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    driver = os.environ.get("CHROMEDRIVER") or shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


class Browser:
    """One window."""

    def __init__(self, width=1500, height=950):
        browser, driver = programs()
        self.folder = tempfile.mkdtemp(prefix="lsparse-browser-")
        self.driver = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        port = None
        for line in self.driver.stdout:
            if "started successfully on port" in line:
                port = line.rsplit("port", 1)[1].strip(" .\n")
                break
        self.address = f"http://127.0.0.1:{port}"
        flags = [*FLAGS, f"--user-data-dir={self.folder}/profile", f"--window-size={width},{height}"]
        options = {"binary": browser, "args": flags, "prefs": {"download.default_directory": self.folder}}
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        self.session = ""
        self.session = "/session/" + self.ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + self.session + path, data, {"Content-Type": "application/json"}, method=method)
        # No proxy stands between a test and its own machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.load(error)["value"]["message"]) from None

    def close(self):
        try:
            self.ask("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait(20)
            shutil.rmtree(self.folder, ignore_errors=True)

    def open(self, path, fragment=""):
        self.ask("POST", "/url", {"url": "about:blank"})
        self.ask("POST", "/url", {"url": Path(path).resolve().as_uri() + fragment})
        self.until("return document.documentElement.dataset.ready === 'yes'")

    def run(self, script, *args):
        return self.ask("POST", "/execute/sync", {"script": script, "args": list(args)})

    def until(self, script, *args, seconds=20):
        end = time.monotonic() + seconds
        while not (found := self.run(script, *args)):
            assert time.monotonic() < end, f"never: {script}"
            time.sleep(0.02)
        return found

    def find(self, selector):
        return self.ask("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self.ask("POST", f"/element/{self.find(selector)}/click", {})

    def type(self, selector, text):
        element = self.find(selector)
        self.ask("POST", f"/element/{element}/value", {"text": KEYS.get(text, text)})

    def clear(self, selector):
        self.ask("POST", f"/element/{self.find(selector)}/clear", {})

    def give_file(self, selector, path):
        self.ask("POST", f"/element/{self.find(selector)}/value", {"text": str(path)})

    def press(self, key):
        key = KEYS.get(key, key)
        actions = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self.ask("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def pointer(self, *steps):
        """Steps of the mouse: ("move", x, y), ("down",), ("up",), and ("wheel", x, y, by) by itself."""
        if steps[0][0] == "wheel":
            _, x, y, by = steps[0]
            scroll = {"type": "scroll", "x": int(x), "y": int(y), "deltaX": 0, "deltaY": by}
            self.ask("POST", "/actions", {"actions": [{"type": "wheel", "id": "wheel", "actions": [scroll]}]})
            return
        kinds = {"move": "pointerMove", "down": "pointerDown", "up": "pointerUp"}
        actions = []
        for name, *place in steps:
            action = {"type": kinds[name], "button": 0}
            if place:
                action |= {"x": int(place[0]), "y": int(place[1]), "duration": 20}
            actions.append(action)
        parameters = {"pointerType": "mouse"}
        self.ask("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "parameters": parameters, "actions": actions}]})

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def texts(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector)

    def resize(self, width, height):
        self.ask("POST", "/window/rect", {"width": width, "height": height})

    def screenshot(self, path):
        Path(path).write_bytes(base64.b64decode(self.ask("GET", "/screenshot")))

    def log(self, kind):
        return self.ask("POST", "/se/log", {"type": kind})

    def requests(self):
        """The addresses that pages asked for, by the browser's own log; its own pages (a new tab) are no business of ours."""
        found = []
        for entry in self.log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent" and not message["params"]["documentURL"].startswith("chrome"):
                found.append(message["params"]["request"]["url"])
        return found
