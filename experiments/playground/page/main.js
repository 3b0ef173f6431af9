// The page: a picture, a relaxation of it, and what they show.

const described = JSON.parse(find("described").textContent);
const network = readNetwork(described.network);
const { view, samples, names } = described;

const pad = new Pad(find("pad"), (strokes) => look(rasterise(strokes, view)));
const bars = new Bars(find("bars"), names);
const maps = network.layers.map(addMaps);

let pixels = new Float64Array(view.size ** 2);
let relaxation = new Relaxation(network, seen(pixels));
let timer = null;
let nextSample = 0;

// Pixels as the network takes them.
function seen(raw) {
  const { mean, scale } = described.normalisation;
  return raw.map((value) => (value - mean) / scale);
}

// Show the network another picture, and let it settle.
function look(raw) {
  pixels = raw;
  relaxation = new Relaxation(network, seen(raw), knobs());
  run();
}

function addMaps(layer) {
  const pair = find("layer").content.cloneNode(true);
  const [state, moved] = pair.querySelectorAll("canvas");
  const [text] = pair.querySelectorAll("h3");
  const count = `${layer.size} units`;
  text.textContent = network.layers.length > 1 ? `${layer.name}: ${count}` : `State of ${count}`;
  find("layers").append(pair);
  return { layer, state, moved, figure: moved.closest("figure") };
}

// Knobs -------------------------------------------------------------------------------------

const EXACT = 9; // the right end of a slider of bits

function knobs() {
  const number = (id) => Number(find(id).value);
  const bits = (id) => (number(id) === EXACT ? null : number(id));
  const norm = number("norm");
  return {
    beta: number("beta"),
    target: number("target"),
    norm: network.norm && Math.abs(norm - network.norm) > 0.006 ? norm : null,
    noise: number("noise"),
    stateBits: bits("state-bits"),
    weightBits: bits("weight-bits"),
  };
}

function describeKnobs() {
  const now = knobs();
  const say = (id, text) => (find(`${id}-value`).textContent = text);
  say("beta", now.beta ? `β = ${now.beta.toFixed(2)}` : "off");
  const norm = now.norm ?? network.norm ?? 0;
  say("norm", `${norm.toFixed(2)}${now.norm === null ? ", as trained" : ""}`);
  find("norm-warning").hidden = norm < 1;
  say("noise", now.noise ? `± ${now.noise.toFixed(2)}` : "none");
  say("state-bits", now.stateBits ? `${now.stateBits} bits` : "exact");
  say("weight-bits", now.weightBits ? `${now.weightBits} bits` : "exact");
  say("speed", `${find("speed").value} steps/s`);
}

function turned() {
  describeKnobs();
  relaxation.turn(knobs());
  run();
}

// The clock ---------------------------------------------------------------------------------

// Steps that chance disturbs never end by themselves, and are worth watching.
const endless = () => relaxation.knobs.noise > 0 && relaxation.steps < 5000;

function run() {
  clearTimeout(timer);
  const over = relaxation.done && !endless();
  timer = over ? null : setTimeout(go, 1000 / Number(find("speed").value));
  show();
}

function go() {
  relaxation.step();
  run();
}

function pause() {
  clearTimeout(timer);
  timer = null;
  show();
}

// Views -------------------------------------------------------------------------------------

function show() {
  const { state, free, history, steps } = relaxation;
  heat(find("seen"), pixels.map((value) => value / view.full), view.size, 1);
  find("seen").dataset.pixels = JSON.stringify([...pixels]);
  for (const map of maps) {
    const columns = Math.ceil(Math.sqrt(map.layer.size));
    heat(map.state, part(map.layer, state), columns, map.layer.reach);
    map.figure.classList.toggle("waiting", !free);
    const moved = state.map((value, k) => value - (free ?? state)[k]);
    heat(map.moved, part(map.layer, moved), columns, Math.max(largest(moved), 1e-9));
    map.figure.querySelector("output").textContent = free
      ? `up to ${largest(moved).toFixed(3)}, away from the free state`
      : "Nothing: turn the nudge on.";
  }
  const { beta, target } = relaxation.knobs;
  const best = bars.show(relaxation.answer(), beta ? target : -1);
  const empty = !pixels.some((value) => value);
  find("answer").textContent = empty ? "–" : names[best];
  // Where a knob was turned both lines are broken: it is another energy.
  const line = (read) => history.flatMap((moment) => {
    return moment.residual === null ? [null, read(moment)] : [read(moment)];
  });
  curve(find("energy"), line((moment) => moment.energy), { name: "energy", steps });
  const residuals = line((moment) => moment.residual || null);
  curve(find("residual"), residuals, { name: "residual", steps, logarithmic: true });
  find("status").textContent = status(steps);
  find("run").textContent = timer ? "Pause" : "Run";
  document.body.dataset.state = timer ? "running" : relaxation.settled ? "settled" : "stopped";
}

function status(steps) {
  const after = `${steps} ${steps === 1 ? "step" : "steps"}`;
  if (relaxation.settled) return `Settled after ${after}.`;
  if (timer) return `Step ${steps} …`;
  return relaxation.done ? `Not settled after ${after}: it goes round.` : `Stopped after ${after}.`;
}

// Beginning ---------------------------------------------------------------------------------

function showSample() {
  const { pixels: raw, label } = samples[nextSample % samples.length];
  nextSample += 1;
  pad.clear();
  pad.showsPicture = true;
  heatPad(raw);
  find("sample-label").textContent = `A test picture of a ${label}.`;
  look(Float64Array.from(raw));
}

function heatPad(raw) {
  const pen = find("pad").getContext("2d");
  const side = find("pad").width / view.size;
  pen.fillStyle = colour("--ink");
  raw.forEach((value, k) => {
    pen.globalAlpha = value / view.full;
    pen.fillRect((k % view.size) * side, Math.floor(k / view.size) * side, side, side);
  });
  pen.globalAlpha = 1;
}

function announce() {
  const apart = disagreement(network, described.agreement);
  const badge = find("agreement");
  const agrees = apart <= ALLOWED;
  badge.className = agrees ? "badge good" : "badge bad";
  const size = apart === 0 ? "the last digit" : apart.toExponential(0);
  badge.textContent = agrees ? `agrees with the engine to ${size}` : "does not agree with the engine";
  badge.dataset.apart = apart;
}

function wire() {
  for (const [k, name] of names.entries()) find("target").append(new Option(name, k));
  if (network.norm) {
    find("norm").value = network.norm;
  } else {
    find("norm").closest(".knob").hidden = true;
  }
  for (const id of ["beta", "target", "norm", "noise", "state-bits", "weight-bits"]) {
    find(id).addEventListener("input", turned);
  }
  find("speed").addEventListener("input", describeKnobs);
  const press = (id, action) => find(id).addEventListener("click", action);
  press("sample", showSample);
  press("clear", () => {
    pad.clear();
    find("sample-label").textContent = "Draw a digit here.";
    look(new Float64Array(view.size ** 2));
  });
  press("run", () => (timer ? pause() : run()));
  press("step", () => {
    relaxation.step();
    pause();
  });
  press("again", () => {
    relaxation.restart();
    run();
  });
  find("pad").addEventListener("pointerdown", () => {
    find("sample-label").textContent = "Your digit.";
  });
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", () => {
    if (!pad.showsPicture) pad.show();
    show();
  });
}

wire();
describeKnobs();
announce();
showSample();
