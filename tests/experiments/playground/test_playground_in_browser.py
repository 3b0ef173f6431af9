"""The playground in a browser: it computes what the engine does, and shows what it computes."""

import json

import numpy as np
import pytest

from engine import (
    Bias,
    InputDrive,
    Layer,
    Network,
    NumbaBackend,
    Relaxation,
    SquaredError,
    conv_net,
    initial_params,
    layered,
    looped_mlp,
)
from experiments.playground.agreement import Knobs, agreement_cases, changed
from experiments.playground.choices import VIEWS
from experiments.playground.described import describe
from experiments.playground.page import Words, render_page
from experiments.tasks import find_task
from tests.experiments.browser import ask, needs_chromium

pytestmark = needs_chromium

REQUIRED = 1e-5
SPLIT = find_task("digits").load(0)
SAMPLES = [5, 17, 40]
NETWORKS = {
    "looped": looped_mlp(64, 24, 10),
    "deep": layered((64, 20, 15, 10), "hard_sigmoid", readout="squared_error"),
    "convolution": conv_net((8, 8, 1), (4, 6), 10),
    "alone": Network(
        64,
        (Layer("outputs", (10,), "linear"),),
        (InputDrive("W", "outputs"), Bias("b", "outputs")),
        SquaredError("outputs"),
    ),
}
PARAMS = {
    name: initial_params(network, np.random.default_rng(k))
    for k, (name, network) in enumerate(NETWORKS.items())
}
FOUR = (((0.7, 0.9), (0.65, 0.1), (0.2, 0.65), (0.9, 0.6)),)
FLAT = (((0.1, 0.5), (0.5, 0.55), (0.9, 0.5)), ((0.3, 0.4), (0.7, 0.4)))

LIBRARY = """
const get = (id) => page.getElementById(id);
const wait = () => new Promise((done) => setTimeout(done, 40));
const settled = async () => {
  for (let k = 0; k < 900 && page.body.dataset.state === "running"; k++) await wait();
  return page.body.dataset.state;
};
const turn = async (id, value) => {
  get(id).value = value;
  get(id).dispatchEvent(new shown.Event("input", { bubbles: true }));
  return await settled();
};
const draw = async (strokes) => {
  const pad = get("pad"), edge = pad.getBoundingClientRect();
  const send = (kind, [x, y]) => pad.dispatchEvent(new shown.PointerEvent(kind, {
    bubbles: true, cancelable: true, pointerId: 1,
    clientX: edge.left + x * edge.width, clientY: edge.top + y * edge.height,
  }));
  for (const stroke of strokes) {
    send("pointerdown", stroke[0]);
    stroke.slice(1).forEach((point) => send("pointermove", point));
    send("pointerup", stroke.at(-1));
  }
  return await settled();
};
const tell = (how) => ({
  how, answer: get("answer").textContent, status: get("status").textContent,
  values: [...page.querySelectorAll("#bars li")].map((row) => Number(row.dataset.value)),
  pixels: JSON.parse(get("seen").dataset.pixels),
});
const colours = () => {
  const map = page.querySelector("#layers canvas");
  const copy = page.createElement("canvas");
  [copy.width, copy.height] = [map.width, map.height];
  const pen = copy.getContext("2d", { willReadFrequently: true });
  pen.drawImage(map, 0, 0);
  const all = pen.getImageData(0, 0, map.width, map.height).data;
  const found = new Set();
  for (let k = 0; k < all.length; k += 4) {
    if (all[k + 3] === 255) found.add(`${all[k]} ${all[k + 1]} ${all[k + 2]}`);
  }
  return found.size;
};
get("speed").value = 60;
get("speed").dispatchEvent(new shown.Event("input", { bubbles: true }));
"""


def page_of(name: str, *, wrong: bool = False) -> str:
    """The page of a network; a wrong one has the numbers of another."""
    params = PARAMS[name]
    described = describe(params, SPLIT, VIEWS["digits"], SAMPLES)
    other = params.copy()
    if wrong:
        other.theta[0] += 1e-3
    described["agreement"] = agreement_cases(other, SPLIT, SAMPLES)
    return render_page(described, Words("About.", "Made."), 8)


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """What every page says of itself."""
    pages = {name: (page_of(name), 1400) for name in NETWORKS}
    pages["wrong"] = page_of("looped", wrong=True), 1400
    script = """
      const badge = page.getElementById("agreement");
      return { apart: Number(badge.dataset.apart), said: badge.textContent };
    """
    return ask(pages, script, tmp_path_factory.mktemp("compared"))


@pytest.mark.parametrize("name", NETWORKS)
def test_the_page_computes_what_the_engine_does(name, compared):
    assert compared[name]["apart"] < REQUIRED
    assert compared[name]["said"].startswith("agrees with the engine to")


def test_another_network_is_noticed(compared):
    assert compared["wrong"]["apart"] > REQUIRED
    assert compared["wrong"]["said"] == "does not agree with the engine"


@pytest.fixture(scope="module")
def driven(tmp_path_factory):
    """What is shown after drawings, and after knobs were turned, on a phone."""
    script = f"""{LIBRARY}
      const found = {{}};
      found.first = tell(await settled());
      found.four = tell(await draw({json.dumps(FOUR)}));
      get("clear").click();
      found.cleared = tell(await settled());
      found.flat = tell(await draw({json.dumps(FLAT)}));
      get("target").value = 7;
      found.nudged = tell(await turn("beta", 1.5));
      await turn("beta", 0);
      found.capped = tell(await turn("norm", 0.3));
      found.rounded = tell(await turn("weight-bits", 3));
      found.coarse = {{ ...tell(await turn("state-bits", 2)), colours: colours() }};
      await turn("state-bits", 9);
      turn("noise", 0.2);
      for (let k = 0; k < 30; k++) await wait();
      get("run").click();
      found.noisy = {{ ...tell(page.body.dataset.state), colours: colours() }};
      get("step").click();
      const before = found.noisy.status, after = get("status").textContent;
      const steps = (text) => Number(text.match(/\\d+/)[0]);
      found.clock = {{ stepped: steps(after) - steps(before) }};
      get("again").click();
      found.clock.again = steps(get("status").textContent);
      found.whole = page.documentElement.scrollWidth;
      found.width = shown.innerWidth;
      const cut = (e) => e.getBoundingClientRect().right > shown.innerWidth + 1;
      found.cut = [...page.body.querySelectorAll("*")].filter(cut).map((e) => e.id || e.tagName);
      return found;
    """
    pages = {"phone": (page_of("looped"), 420)}
    return ask(pages, script, tmp_path_factory.mktemp("driven"))["phone"]


def seen(pixels: list[float]) -> np.ndarray:
    return SPLIT.normalise(np.array(pixels)[None]).astype(np.float64)


def answer_of(pixels: list[float], knobs: Knobs) -> np.ndarray:
    """What the engine answers to a picture, with knobs turned."""
    params = changed(PARAMS["looped"].astype(np.float64), knobs)
    backend = NumbaBackend(params.network, params)
    clamped = backend.clamp(seen(pixels), np.eye(10)[[knobs.target]])
    settled = backend.settle(clamped, knobs.beta, Relaxation(500, 1e-9))
    return backend.predict(settled)[0]


@pytest.mark.parametrize(
    ("what", "knobs"),
    [
        ("first", Knobs()),
        ("four", Knobs()),
        ("cleared", Knobs()),
        ("flat", Knobs()),
        ("nudged", Knobs(beta=1.5, target=7)),
        ("capped", Knobs(norm=0.3)),
        ("rounded", Knobs(norm=0.3, weightBits=3)),
    ],
)
def test_the_answer_is_that_of_the_engine(what, knobs, driven):
    shown = driven[what]
    expected = answer_of(shown["pixels"], knobs)
    assert shown["how"] == "settled"
    assert shown["values"] == pytest.approx(expected, abs=REQUIRED)
    if what != "cleared":
        assert shown["answer"] == str(expected.argmax())


def test_a_drawing_is_what_the_network_sees(driven):
    assert seen(driven["first"]["pixels"])[0] == pytest.approx(SPLIT.x_test[5], abs=1e-6)
    four, flat = (np.array(driven[name]["pixels"]).reshape(8, 8) for name in ("four", "flat"))
    assert not any(driven["cleared"]["pixels"])
    assert four[:, [0, 7]].any(axis=0).all() or four[[0, 7]].any(axis=1).all()
    assert four.max() <= 16
    assert four.sum() > 16 * 8
    assert flat[:2].sum() == flat[6:].sum() == 0  # wide, so that it leaves the top and the bottom
    assert flat[3:5].sum() > 16 * 8
    for drawn in (four, flat):  # as much ink as the pictures of the data have, or more
        assert drawn.mean() > 0.9 * VIEWS["digits"].ink
    assert np.abs(np.subtract(driven["four"]["values"], driven["flat"]["values"])).max() > REQUIRED


def test_a_nudge_pulls_towards_its_class(driven):
    assert driven["nudged"]["values"][7] > driven["flat"]["values"][7] + 0.01
    assert driven["capped"]["values"] != pytest.approx(driven["flat"]["values"], abs=REQUIRED)


def test_few_bits_leave_few_shades_and_noise_does_not_settle(driven):
    assert driven["coarse"]["colours"] <= 3  # minus one, zero, one
    assert driven["noisy"]["how"] == "stopped"
    assert driven["noisy"]["colours"] > 10
    assert driven["clock"] == {"stepped": 1, "again": 0}


def test_nothing_is_cut_on_a_phone(driven):
    assert driven["width"] == driven["whole"] == 420
    assert driven["cut"] == []
