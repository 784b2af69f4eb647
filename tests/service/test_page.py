"""The page in a real browser: Debian's chromium, driven by Playwright."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Iterator

import numpy as np
import pytest
import torch

import gad
from gad.chem.draw import layout
from gad.operators import HEAT, IMPLICIT, Eigenbasis
from tests.service.conftest import serving

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium: apt-get install chromium"),
]

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
)
ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
DROP = """([name, text]) => {
    const data = new DataTransfer();
    data.items.add(new File([text], name));
    for (const kind of ["dragenter", "dragover", "drop"])
        window.dispatchEvent(new DragEvent(kind, {dataTransfer: data, cancelable: true}));
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, url):
    """Open the page in windows of a given size; nothing may be wrong in the console."""
    contexts, wrong, foreign = [], [], []

    def opened(width: int = 1200, height: int = 900, url: str = url, ready: bool = True, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: m.type in {"error", "warning"} and wrong.append(m.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda r: r.url.startswith((url, "blob:")) or foreign.append(r.url))
        page.goto(url)
        if ready:
            settled(page)
        return page

    opened.wrong = wrong
    yield opened
    for context in contexts:
        context.close()
    assert wrong == []
    assert foreign == []


@pytest.fixture
def page(open_page):
    return open_page()


class Held:
    """Requests to one address, kept waiting until they are let go."""

    def __init__(self, page, pattern: str) -> None:
        self.page, self.routes, self.free = page, [], False
        page.route(pattern, self.take)

    def take(self, route) -> None:
        if self.free:
            route.continue_()
        else:
            self.routes.append(route)

    def wait(self, count: int = 1) -> None:
        for _ in range(6_000):
            if len(self.routes) >= count:
                return
            self.page.wait_for_timeout(10)
        pytest.fail(f"{len(self.routes)} requests came, not {count}")

    def let_go(self) -> None:
        self.free = True
        for route in self.routes:
            route.continue_()


def settled(page) -> None:
    """Wait until everything that was asked for is answered and shown."""
    page.wait_for_selector("main[aria-busy=false]")


def typed(page, text: str) -> None:
    page.fill("#smiles", text)
    settled(page)


def test_what_is_typed_is_drawn_and_predicted(page, esol):
    smiles = "Cn1cnc2c1c(=O)n(C)c(=O)n2C"
    typed(page, smiles)
    shown = float(page.inner_text("#prediction .value").split()[0].replace("−", "-"))
    assert shown == pytest.approx(float(gad.load(esol).predict([smiles])[0]), abs=0.006)
    assert page.locator("#molecule circle.atom").count() == 14
    assert page.locator("#prediction .interval").is_visible()
    assert smiles in page.evaluate("() => decodeURIComponent(location.hash)")


def test_atoms_are_coloured_by_their_share_and_neighbours_can_be_opened(page, esol):
    shares = gad.load(esol).explain([ASPIRIN])[0].atoms[:, 0]
    discs = page.locator("#molecule g circle").evaluate_all(
        "all => all.map(c => (c.getAttribute('fill').includes('cold') ? -1 : 1)"
        " * Number(c.getAttribute('opacity')))"
    )
    np.testing.assert_allclose(discs, shares / np.abs(shares).max(), atol=1e-3)
    assert page.locator("#prediction .badge").inner_text() in {"inside", "edge", "outside"}
    near = page.locator("#near button")
    assert near.count() == 3
    smiles = near.first.get_attribute("title")
    near.first.click()
    settled(page)
    assert page.evaluate("() => window.gad.row.smiles") == smiles
    assert page.input_value("#smiles") == smiles


def test_an_error_is_said_and_goes_away(page):
    typed(page, "CC(C")
    assert "Parse Error" in page.inner_text("#problem")
    assert page.get_attribute("#smiles", "aria-invalid") == "true"
    # nothing that is still shown belongs to it
    assert page.locator(".picture.stale, #prediction-card.stale").count() == 4
    typed(page, "CC(C)C")
    assert page.is_hidden("#problem")
    assert page.locator(".stale").count() == 0
    assert page.evaluate("() => window.gad.row.smiles") == "CC(C)C"


def test_one_atom_a_salt_and_a_molecule_too_large_for_heat(page):
    for smiles in ("C", "[Na+].[Cl-]"):
        typed(page, smiles)
        assert "no bond here" in page.inner_text("#heat-note")
    typed(page, "C" * 301)
    assert page.is_hidden("#heat")
    assert "too large to show heat" in page.inner_text("#cold")
    assert page.inner_text("#prediction .badge") == "outside"
    assert "this one may not" in page.inner_text("#prediction")
    typed(page, "CCO")
    assert page.is_visible("#heat")
    assert page.is_hidden("#cold")


def test_a_service_that_has_gone_away_is_said_and_may_come_back(open_page):
    page = open_page()
    page.route("**/v1/**", lambda route: route.abort())
    page.route("**/openchemlib.js", lambda route: route.abort())
    typed(page, "CCO")
    assert "does not answer" in page.inner_text("#problem")
    assert page.get_attribute("#smiles", "aria-invalid") == "false"
    assert page.locator("#prediction-card.stale").count() == 1
    page.click("#sketch")
    page.wait_for_selector("#sketcher", state="hidden")
    page.unroute("**/v1/**")
    typed(page, "CCCO")
    assert page.is_hidden("#problem")
    page.route("**/v1/models", lambda route: route.abort())
    page.reload()
    settled(page)
    assert "does not answer" in page.inner_text("#problem")
    page.unroute("**/v1/models")
    typed(page, "CCCCO")
    assert page.evaluate("() => window.gad.row.smiles") == "CCCCO"
    assert all("ERR_FAILED" in text for text in open_page.wrong)  # the browser tells of these
    open_page.wrong.clear()


def test_a_wrong_key_is_asked_for_again(open_page, esol):
    with serving({"esol": esol}, api_key="right") as url:
        page = open_page(url=url, ready=False)
        for key in ("wrong", "right"):
            page.fill("#key", key)
            with page.expect_response("**/v1/models"):
                page.keyboard.press("Enter")
        settled(page)
        assert page.evaluate("() => window.gad.row.smiles") == ASPIRIN
        page.evaluate("() => sessionStorage.clear()")
        page.fill("#smiles", "CCO")
        page.wait_for_selector("#key-dialog", state="visible")
        page.keyboard.press("Escape")
        settled(page)
        assert "API key" in page.inner_text("#problem")
        page.goto("about:blank")
    assert all("401" in text for text in open_page.wrong)
    open_page.wrong.clear()


def dropped(page, name: str, text: str) -> None:
    page.evaluate(DROP, [name, text])
    settled(page)


def exact(smiles: str, atom: int, time: float, scheme) -> tuple[np.ndarray, np.ndarray]:
    """Heat and |B_dx| of it, by the library."""
    bonds = torch.tensor([bond[:2] for bond in layout(smiles).bonds])
    count = len(layout(smiles).symbols)
    operators = gad.build_operators(torch.cat([bonds, bonds.flip(1)]).t(), count)
    x = torch.zeros(count, 1)
    x[atom] = 1
    h = Eigenbasis()(operators, x, torch.tensor([time]), scheme)
    return h[:, 0].numpy(), operators.directional_derivative(h)[:, 0].numpy()


def test_heat_spreads_from_the_atom_that_is_clicked(page):
    page.locator("#heat-picture circle.atom").nth(3).click()
    page.locator("#time").fill("230")
    told = page.evaluate("() => window.gad.told")
    assert told["t"] == pytest.approx(10**0.3)
    heat, slope = exact(ASPIRIN, 3, told["t"], IMPLICIT)
    np.testing.assert_allclose(told["h"], heat, atol=1e-5)
    np.testing.assert_allclose(told["filtered"], slope, atol=1e-5)
    page.click("#scheme-spectral")
    heat, _ = exact(ASPIRIN, 3, told["t"], HEAT)
    np.testing.assert_allclose(page.evaluate("() => window.gad.told.h"), heat, atol=1e-5)
    page.click("#filter-av")
    assert page.get_attribute("#filter-av", "aria-pressed") == "true"
    discs = page.locator("#heat-picture g circle").evaluate_all(
        "all => all.map(c => Number(c.getAttribute('opacity')))"
    )
    np.testing.assert_allclose(discs, heat / heat.max(), atol=2e-4)
    page.locator("#time").fill("0")
    assert page.evaluate("() => window.gad.told.h.filter(x => x !== 0)") == [1]


PICTURE = "() => document.querySelector('#heat-picture svg').outerHTML"


def test_a_click_is_for_the_atom_that_is_seen_however_late_the_answers_come(page):
    draw = Held(page, "**/v1/draw")
    page.fill("#smiles", "c1ccncc1CCO")
    before = page.evaluate(PICTURE)
    draw.wait()
    box = page.locator("#heat-picture circle.atom").nth(2).bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.evaluate(PICTURE) == before  # aspirin still, but that is not what is asked for
    predict = Held(page, "**/v1/predict")
    draw.let_go()
    predict.wait()
    page.locator("#heat-picture circle.atom").nth(2).click()
    chosen = page.evaluate(PICTURE)
    assert page.evaluate("() => [window.gad.smiles, window.gad.atom]") == ["c1ccncc1CCO", 2]
    predict.let_go()
    settled(page)
    assert page.evaluate(PICTURE) == chosen
    page.select_option("#model", "mixed")
    settled(page)
    page.select_option("#model", "esol")
    settled(page)
    assert page.evaluate(PICTURE) == chosen


def test_the_last_thing_asked_for_is_the_one_shown(page):
    predict = Held(page, "**/v1/predict")
    page.click("#examples button:has-text('caffeine')")
    predict.wait()
    page.click("#examples button:has-text('ibuprofen')")
    predict.wait(2)
    predict.let_go()
    settled(page)
    assert page.evaluate("() => window.gad.row.smiles").startswith("CC(C)Cc1")
    assert page.evaluate("() => window.gad.smiles").startswith("CC(C)Cc1")


def test_many_lines_show_the_first_before_the_table_comes(page):
    table = Held(page, "**/v1/predict/file*")
    page.fill("#smiles", "c1ccncc1CCO\nCCO")
    table.wait()
    page.locator("#heat-picture circle.atom").nth(2).click()
    table.let_go()
    settled(page)
    assert page.locator("#table tbody tr").count() == 2
    assert page.evaluate("() => [window.gad.row.smiles, window.gad.atom]") == ["c1ccncc1CCO", 2]


def test_the_keyboard_is_enough(page):
    page.locator("#heat-picture circle.atom.source").focus()
    first = page.evaluate("() => window.gad.atom")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("() => window.gad.atom") == (first + 1) % 13
    page.focus("#time")
    before = page.evaluate("() => window.gad.told.t")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("() => window.gad.told.t") > before
    page.focus("#smiles")
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("() => document.activeElement.id || document.activeElement.tagName")
        )
    assert {"sketch", "file", "play", "time", "scheme-spectral", "filter-av"} <= reached


def test_a_table_that_is_dropped_is_predicted_sorted_filtered_and_downloaded(page, client):
    text = "name,smiles\nzeta,CCO\nalpha,c1ccccc1\nbroken,C(\nmiddle,CCCCCCCC\n"
    dropped(page, "some.csv", text)
    assert page.locator("#table tbody tr").count() == 4
    assert "1 could not be read" in page.inner_text("#many-told")
    page.click("#table th:has-text('name') button")
    names = page.locator("#table tbody tr td:nth-child(2)")
    assert names.all_inner_texts() == ["alpha", "broken", "middle", "zeta"]
    page.click("#table th:has-text('target_pred') button")
    page.click("#table th:has-text('target_pred') button")
    values = page.locator("#table tbody tr td:nth-child(4)").all_inner_texts()
    numbers = [float(value) for value in values if value]
    assert numbers == sorted(numbers, reverse=True)
    assert values[-1] == ""  # what has no value stands last, either way
    page.fill("#filter", "alph")
    assert page.locator("#table tbody tr").count() == 1
    with page.expect_download() as waiting:
        page.click("#download")
    rows = list(csv.DictReader(io.StringIO(waiting.value.path().read_text(encoding="utf-8"))))
    answer = client.post(
        "/v1/predict/file?uncertainty=true",
        content=text,
        headers={"Content-Type": "text/csv"},
    )
    whole = list(csv.DictReader(io.StringIO(answer.text)))
    assert rows == [row for row in whole if row["name"] == "alpha"]
    page.wait_for_selector("#table td.drawn svg")
    page.click("#table td.drawn button")
    settled(page)
    assert page.evaluate("() => window.gad.row.smiles") == "c1ccccc1"
    assert "spans 2 dimensions" in page.inner_text("#heat-note")


def test_many_lines_are_a_table_and_a_file_of_another_kind_is_refused(page):
    typed(page, "CCO ethanol\nC(\nc1ccccc1O phenol")
    assert page.locator("#table tbody tr").count() == 3
    reason = page.locator("#table td.bad").nth(1)
    assert "Parse Error" in reason.inner_text()
    right = [place.bounding_box() for place in (reason, page.locator("#many .scroll"))]
    assert right[0]["x"] + right[0]["width"] <= right[1]["x"] + right[1]["width"]
    assert "warning" not in page.inner_text("#table thead")  # of which there is none
    assert right[1]["y"] < page.locator("#heat").bounding_box()["y"]
    dropped(page, "report.pdf", "%PDF")
    assert "report.pdf" in page.inner_text("#problem")


def test_another_model_may_want_more(page):
    page.select_option("#model", "mixed")
    settled(page)
    assert "mass" in page.inner_text("#problem")
    assert page.inner_text("#prediction") == ""
    page.select_option("#model", "esol")
    settled(page)
    assert page.is_hidden("#problem")


def test_a_molecule_can_be_drawn_by_hand(page):
    page.click("#sketch")
    page.click("#sketch-take")  # as soon as it can be
    settled(page)
    assert "c1ccccc1" in page.input_value("#smiles")
    assert page.is_hidden("#problem")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_all_of_it(open_page, scheme):
    page = open_page(375, 720, color_scheme=scheme, has_touch=True)
    typed(page, "CC1(C)S[C@@H]2[C@H](NC(=O)Cc3ccccc3)C(=O)N2[C@H]1C(=O)O\nCCO")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 375
    page.locator("#heat-picture circle.atom").nth(2).tap()
    assert page.evaluate("() => window.gad.atom") == 2
    ground = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert (int(ground.split("(")[1].split(",")[0]) < 60) == (scheme == "dark")


def test_an_ensemble_of_several_targets_shows_each_in_its_own_way(open_page, several):
    with serving({"several": several}) as url:
        page = open_page(url=url)
        row = page.evaluate("() => window.gad.row")
        buttons = page.locator("#prediction .target button")
        assert buttons.all_inner_texts() == ["logS", "band", "hit"]
        assert "members of the ensemble differ" in page.inner_text("#prediction")
        page.locator("#heat-picture circle.atom").nth(2).click()
        buttons.nth(1).click()
        assert page.inner_text("#prediction .value").split()[0] == row["values"]["band"]
        bands = page.locator("#prediction .classes span:nth-child(3n + 1)").all_inner_texts()
        chances = row["probabilities"]["band"]
        assert bands == sorted(chances, key=chances.get, reverse=True)
        assert f"band: {row['values']['band']}" in page.inner_text("#share-note")
        buttons.nth(2).click()
        assert page.inner_text("#prediction .value").split()[1] == "%"
        assert "in logits" in page.inner_text("#share-note")
        assert page.evaluate("() => window.gad.atom") == 2
        typed(page, "CCO")  # the target that was chosen stays
        assert buttons.nth(2).get_attribute("aria-pressed") == "true"
        page.goto("about:blank")


def test_a_key_while_the_page_is_on_its_way_counts(open_page, url):
    page = open_page()
    models = Held(page, "**/v1/models")
    page.goto(f"{url}?again", wait_until="commit")
    models.wait()
    page.fill("#smiles", "CCO")
    models.let_go()
    settled(page)
    assert page.evaluate("() => window.gad.row.smiles") == "CCO"
    assert page.input_value("#smiles") == "CCO"


def test_the_back_button_and_a_reload_show_what_was_there(page, url):
    page.click("#examples button:has-text('caffeine')")
    settled(page)
    page.click("#examples button:has-text('ibuprofen')")
    page.go_back()  # in the middle of a request
    settled(page)
    assert page.evaluate("() => window.gad.row.smiles").startswith("Cn1cnc2")
    typed(page, "CCO\nCCCO")
    page.reload()
    settled(page)
    assert page.locator("#table tbody tr").count() == 2
    page.goto(f"{url}#%E0%A4%A")  # no text at all
    settled(page)
    page.reload()
    settled(page)
    assert page.evaluate("() => window.gad.row.smiles") == ASPIRIN
    page.focus(".skip")
    page.keyboard.press("Enter")
    page.keyboard.press("End")
    page.keyboard.type("C")
    settled(page)
    assert page.evaluate("() => window.gad.row.smiles") == ASPIRIN + "C"


def test_a_table_without_rows_is_said_and_takes_nothing_away(open_page):
    page = open_page()
    for name, text in [("none.csv", ""), ("bare.csv", "smiles,name\n"), ("blank.smi", "\n")]:
        dropped(page, name, text)
        assert page.inner_text("#problem"), name
        assert page.is_hidden("#many")
    page.locator("#heat-picture circle.atom").nth(2).click()
    assert page.evaluate("() => [window.gad.smiles, window.gad.atom]") == [ASPIRIN, 2]
    refused = [text for text in open_page.wrong if "422" in text]  # the browser tells of these
    assert len(refused) == 2 == len(open_page.wrong)
    open_page.wrong.clear()


def test_ten_thousand_rows_and_another_model_for_them(page):
    chains = "".join(f"{'C' * (1 + k % 12)}O,{k}\n" for k in range(10_000))
    dropped(page, "long.csv", "smiles,mass\n" + chains)
    assert page.inner_text("#many-told") == "10,000 of 10,000 rows"
    assert page.locator("#table tbody tr").count() == 25
    page.click("#leaf button:has-text('Next')")
    assert page.locator("#table tbody tr td:nth-child(3)").first.inner_text() == "25"
    assert page.input_value("#smiles") == ""
    page.select_option("#model", "mixed")  # the same table again
    settled(page)
    assert "10,000 rows" in page.inner_text("#many-told")
    assert "band_pred" in page.inner_text("#table thead")
