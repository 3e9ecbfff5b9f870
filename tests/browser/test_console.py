"""The console in a real Chromium: what a person sees and does. `make test-browser` runs these."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import Running, make_stocks
from tests.service.test_telling import publish

from .conftest import Tab

pytestmark = pytest.mark.browser

AXE = Path(__file__).parents[2] / "console" / "node_modules" / "axe-core" / "axe.min.js"
SHOTS = os.environ.get("RANKCAST_SHOTS")


def make_couriers(server: Running) -> None:
    engine = {"engine": "MovingTopK", "settings": {"over": ["wait"], "k": 2, "m": 2}}
    assert server.http.put("/v1/streams/couriers", json=engine).status_code == 201
    rows = [
        {"id": f"kitchen {place}", "x": float(place % 10), "y": float(place // 10), "wait": float(place % 7)}
        for place in range(100)
    ]
    assert server.http.post("/v1/streams/couriers/objects", json={"rows": rows}).status_code == 200
    rows = [{"id": "max", "x": 4.4, "y": 4.6}, {"id": "noor", "x": 8.0, "y": 1.0}]
    assert server.http.post("/v1/streams/couriers/subscriptions", json={"rows": rows}).status_code == 201


def make_router(server: Running) -> None:
    server.http.put("/v1/streams/r", json={"engine": "CoveringTable", "settings": {"over": ["a", "b"]}})
    wide = {"id": "wide", "a_lo": 0, "a_hi": 9, "b_lo": 0, "b_hi": 9}
    narrow = {"id": "narrow", "a_lo": 2, "a_hi": 3, "b_lo": 2, "b_hi": 3}
    server.http.post("/v1/streams/r/subscriptions", json={"rows": [wide, narrow]})


def items(page: Any) -> list[str]:
    """The list as it is seen, without what is leaving."""
    return [each.inner_text() for each in page.get_by_test_id("list").locator("li:not(.leave) .item").all()]


def until(what: Any, seconds: float = 5.0) -> float:
    """Wait until something holds; how long it took."""
    begun = time.monotonic()
    while not what():
        assert time.monotonic() - begun < seconds, "it did not happen in time"
        time.sleep(0.02)
    return time.monotonic() - begun


def test_streams_are_shown_and_lead_to_their_lists(tab: Tab, server: Running) -> None:
    make_stocks(server.http)
    page = tab.open("")
    page.get_by_test_id("streams").get_by_text("stocks").click()
    page.get_by_test_id("subscriptions").get_by_text("ada").click()
    until(lambda: items(page) == ["BOLT", "ACME"])


def test_an_event_changes_the_list_within_a_second(tab: Tab, server: Running) -> None:
    make_stocks(server.http)
    page = tab.open("#/s/stocks/ada")
    until(lambda: items(page) == ["BOLT", "ACME"])
    publish(server, "CORE", 7.0, risk=6)
    assert until(lambda: items(page) == ["CORE", "BOLT"]) < 1.0
    page.locator("li.enter .item", has_text="CORE").wait_for()
    page.locator("li.leave .item", has_text="ACME").wait_for()
    assert "2 changes" in page.get_by_test_id("changes").inner_text()


def test_a_click_explains(tab: Tab, server: Running) -> None:
    make_stocks(server.http)
    page = tab.open("#/s/stocks/ada")
    page.get_by_test_id("list").get_by_text("BOLT").click()
    said = page.get_by_test_id("explanation")
    said.get_by_text("It is number 1 of the list").wait_for()
    page.get_by_placeholder("id of an item").fill("CORE")
    page.get_by_role("button", name="Explain").click()
    said.get_by_text("It is not in the list").wait_for()


def test_a_mistake_in_a_form_is_told(tab: Tab, server: Running) -> None:
    make_stocks(server.http)
    tab.expects_refusals = True
    page = tab.open("#/s/stocks")
    page.get_by_role("tab", name="Publish").click()
    form = page.get_by_test_id("form-publish")
    form.get_by_label("pe").fill("cheap")
    form.get_by_text("a finite number is needed").wait_for()
    assert form.get_by_role("button", name="Publish").is_disabled()
    form.get_by_label("pe").fill("3")
    form.get_by_role("button", name="Publish").click()
    refused = page.get_by_test_id("refused")
    refused.wait_for()
    assert "id" in refused.inner_text()
    form.locator("input[name=id]").fill("DELL")
    form.locator("input[name=risk]").fill("4")
    form.get_by_role("button", name="Publish").click()
    form.get_by_text("Accepted as write 3").wait_for()


def test_a_subscription_is_tried_as_one_types_and_then_registered(tab: Tab, server: Running) -> None:
    make_stocks(server.http)
    tab.expects_refusals = True
    page = tab.open("#/s/stocks")
    page.get_by_role("tab", name="Subscribe").click()
    form = page.get_by_test_id("form-subscribe")
    form.locator("input[name=risk_lo]").fill("7")
    page.get_by_test_id("dryrun").get_by_text("CORE").wait_for()
    form.locator("input[name=risk_hi]").fill("1")
    page.get_by_test_id("refused").wait_for()  # the engine's own words: lo above hi
    form.locator("input[name=risk_hi]").fill("9")
    form.locator("input[name=id]").fill("cyd <b>")
    form.get_by_role("button", name="Subscribe").click()
    until(lambda: items(page) == ["CORE"])
    assert page.locator("h2").inner_text() == "cyd <b>"  # shown as text, not as markup
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Remove").click()
    page.get_by_role("tab", name="Subscribe").wait_for()
    assert server.http.get("/v1/streams/stocks/subscriptions").json()["rows"][-1]["id"] == "bob"


def settled(canvas: Any) -> dict[str, float]:
    """Where a canvas is, once the page around it stays as it is."""
    boxes: list[dict[str, float]] = []

    def again() -> bool:
        boxes.append(canvas.bounding_box())
        return len(boxes) > 5 and all(each == boxes[-1] for each in boxes[-5:])

    until(again)
    return boxes[-1]


def test_a_dragged_query_asks_only_when_it_leaves_its_zone(tab: Tab, server: Running) -> None:
    make_couriers(server)
    page = tab.open("#/s/couriers/max")
    until(lambda: len(items(page)) == 2)
    page.get_by_test_id("counter").get_by_text("nothing is asked").wait_for()
    until(lambda: any("zones?subscription=max" in each for each in tab.asked))
    box = settled(page.locator(".plane canvas"))
    world = (-0.18, -0.18, 9.18, 9.18)  # what is seen: the box around all places
    scale = min(box["width"], box["height"]) / ((world[2] - world[0]) * 1.08)

    def at(x: float, y: float) -> tuple[float, float]:
        middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        return middle[0] + (x - 4.5) * scale, middle[1] - (y - 4.5) * scale

    def posts() -> int:
        return sum(each.startswith("POST") for each in tab.asked)

    def asked() -> list[str]:  # the page looks at the stream's load once a second; that is nobody's place
        return [each for each in tab.asked if not each.endswith("/streams/couriers")]

    page.mouse.move(*at(4.4, 4.6))
    page.mouse.down()
    zone = server.http.get("/v1/streams/couriers/zones?subscription=max").json()["features"][0]
    radius = zone["properties"]["radius"]
    assert radius * scale > 8, "the zone is too small to be seen"
    page.wait_for_timeout(1000)  # what opening the page asks for
    before = asked()
    for step in range(1, 6):
        page.mouse.move(*at(4.4 + 0.6 * radius * step / 5, 4.6))
    counter = page.get_by_test_id("counter")
    counter.get_by_text(re.compile("positions inside the zone")).wait_for()
    page.wait_for_timeout(1000)
    assert asked() == before, "asked while inside"
    page.mouse.move(*at(4.4 + 3.0, 4.6), steps=8)
    until(lambda: posts() > 0)
    page.mouse.up()
    assert int(page.get_by_test_id("asked").inner_text()) >= 1


def test_a_query_is_moved_by_keys_too(tab: Tab, server: Running) -> None:
    make_couriers(server)
    page = tab.open("#/s/couriers/max")
    until(lambda: len(items(page)) == 2)
    until(lambda: any("zones?subscription=max" in each for each in tab.asked))
    page.locator(".plane canvas").focus()
    for _ in range(12):
        page.keyboard.press("Shift+ArrowRight")
    until(lambda: any(each.startswith("POST") for each in tab.asked))
    zones = "/v1/streams/couriers/zones?subscription=max"
    until(lambda: server.http.get(zones).json()["features"][0]["geometry"]["coordinates"][0] > 4.4)


def test_an_event_is_matched_and_what_was_never_looked_at_is_counted(tab: Tab, server: Running) -> None:
    engine = {"engine": "RankedMatcher", "settings": {"over": ["age"], "k": 2}}
    server.http.put("/v1/streams/ads", json=engine)
    rows = [{"id": f"ad {n}", "age_lo": n % 50, "age_hi": n % 50 + 5, "score": n / 10} for n in range(500)]
    server.http.post("/v1/streams/ads/subscriptions", json={"rows": rows})
    page = tab.open("#/s/ads")
    form = page.get_by_test_id("form-publish").first
    form.locator("input[name=id]").fill("v1")
    form.locator("input[name=age]").fill("20")
    form.get_by_role("button", name="Publish").click()
    found = page.get_by_test_id("matches")
    found.get_by_text("ad 470").wait_for()
    assert "of 500 subscriptions were looked at" in found.inner_text()


def test_boxes_of_a_router_are_counted(tab: Tab, server: Running) -> None:
    make_router(server)
    page = tab.open("#/s/r")
    page.get_by_text("1 forwarded").wait_for()
    page.get_by_text("1 covered").wait_for()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1400, 900), (390, 844)])
def test_pages_are_accessible_and_fit(
    chromium: Any, server: Running, theme: str, size: tuple[int, int]
) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: run npm ci in console/")
    make_stocks(server.http)
    make_couriers(server)
    make_router(server)
    tab = Tab(
        chromium, server, color_scheme=theme, viewport={"width": size[0], "height": size[1]}, bypass_csp=True
    )
    for name, path, ready in (
        ("streams", "", "streams"),
        ("ranges", "#/s/stocks/ada", "list"),
        ("map", "#/s/couriers/max", "list"),
        ("router", "#/s/r", "subscriptions"),
    ):
        page = tab.open(path)
        page.reload()
        page.get_by_test_id(ready).wait_for()
        if name == "ranges":
            page.get_by_test_id("list").get_by_text("BOLT").click()
            page.get_by_test_id("explanation").wait_for()
            page.get_by_role("button", name="Amend").click()
        if name == "router":
            page.get_by_role("tab", name="Subscribe").click()
        page.wait_for_timeout(700)
        page.add_script_tag(path=str(AXE))
        found = page.evaluate("axe.run()")["violations"]
        serious = [each["id"] for each in found if each["impact"] in ("serious", "critical")]
        assert not serious, [(each["id"], each["nodes"][0]["html"]) for each in found]
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= size[0], f"{name} is {wide} wide"
        if SHOTS:
            Path(SHOTS).mkdir(parents=True, exist_ok=True)
            page.screenshot(path=str(Path(SHOTS) / f"{name}-{theme}-{size[0]}.png"))
    tab.close()


def test_the_keyboard_is_enough(tab: Tab, server: Running) -> None:
    make_stocks(server.http)
    page = tab.open("")
    page.get_by_test_id("streams").get_by_text("stocks").wait_for()
    for _ in range(12):
        page.keyboard.press("Tab")
        if "card" in (page.evaluate("document.activeElement.className") or ""):
            break
    page.keyboard.press("Enter")
    page.get_by_role("tab", name="Subscriptions").wait_for()


def test_a_token_is_asked_for_and_kept_for_the_tab(chromium: Any, tmp_path: Path) -> None:
    from rankcast.service.operating.tokens import Tokens

    (tmp_path / "data").mkdir()
    secret = Tokens(tmp_path / "data").add("web", ["read"])
    server = Running(tmp_path / "data")
    tab = Tab(chromium, server)
    tab.expects_refusals = True
    page = tab.open("")
    page.get_by_label(re.compile("wants a token")).fill(secret)
    page.get_by_role("button", name="Use it").click()
    page.get_by_text("There is no stream yet").wait_for()
    tab.close()
    server.stop()


def test_the_checker_for_phones_agrees_with_its_twin(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node on this machine")
    from tests.moving.test_zone_twin import agree_in_node

    agree_in_node(node, tmp_path)
