// The network, with the formulas of the engine:
//
//   E(s) = sum_u G(s_u) - Phi(s, x)      F = E + beta C(s, y)
//   T(s) = sigma(dPhi/ds - beta dC/ds)   s is an equilibrium when T(s) = s
//
// A network is { layers, links, readout, units }. A state is one array of all units; a layer is
// a piece of it. A link joins the input, a constant one or a layer to a layer.

const TINY = 1.1754943508222875e-38; // of single precision: where the logarithm is cut

const halfSquare = (s) => (s * s) / 2;
const clip = (h, low, high) => Math.min(Math.max(h, low), high);

const ACTIVATIONS = {
  tanh: {
    sigma: Math.tanh,
    convex: (s) => {
      const up = Math.max(1 + s, TINY);
      const down = Math.max(1 - s, TINY);
      return (up * Math.log(up) + down * Math.log(down)) / 2;
    },
  },
  hard_sigmoid: { sigma: (h) => clip(h, 0, 1), convex: halfSquare },
  relu: { sigma: (h) => Math.max(h, 0), convex: halfSquare },
  mirrored_relu: { sigma: (h) => Math.min(h, 0), convex: halfSquare },
  linear: { sigma: (h) => h, convex: halfSquare },
};

function readNetwork(described) {
  const links = described.links.map((link) => ({ ...link, weights: decode(link.weights) }));
  const { readout } = described;
  const matrix = readout.weights && decode(readout.weights);
  const bias = readout.bias && decode(readout.bias);
  return { ...described, links, readout: { ...readout, weights: matrix, bias } };
}

const layerOf = (network, name) => network.layers.find((layer) => layer.name === name);
const part = (layer, state) => state.subarray(layer.start, layer.start + layer.size);

// dPhi/ds of what the state does not change: input and biases.
function clampedDrive(network, x) {
  const drive = new Float64Array(network.units);
  for (const link of network.links.filter((one) => one.clamped)) {
    const from = link.source === "one" ? [1] : x;
    const into = part(layerOf(network, link.target), drive);
    addForward(into, from, link.weights, link.rows, link.columns);
  }
  return drive;
}

// dPhi/ds of what layers send to each other, and one layer to itself (a tied link).
function recurrentDrive(network, state) {
  const drive = new Float64Array(network.units);
  for (const link of network.links.filter((one) => !one.clamped)) {
    const [source, target] = [layerOf(network, link.source), layerOf(network, link.target)];
    const shape = [link.weights, link.rows, link.columns];
    addForward(part(target, drive), part(source, state), ...shape);
    if (!link.tied) addBackward(part(source, drive), part(target, state), ...shape);
  }
  return drive;
}

function logits(network, state) {
  const { readout } = network;
  const sums = Float64Array.from(readout.bias);
  const read = part(layerOf(network, readout.layer), state);
  addForward(sums, read, readout.weights, read.length, sums.length);
  const most = Math.max(...sums);
  return sums.map((sum) => sum - most);
}

// What the network answers: probabilities of a softmax, or the units of its last layer.
function outputs(network, state) {
  if (!network.readout.weights) return part(layerOf(network, network.readout.layer), state).slice();
  const odds = logits(network, state).map(Math.exp);
  const total = odds.reduce((sum, odd) => sum + odd, 0);
  return odds.map((odd) => odd / total);
}

function cost(network, state, y) {
  const answer = outputs(network, state);
  if (!network.readout.weights) {
    return answer.reduce((sum, value, k) => sum + (value - y[k]) ** 2, 0) / 2;
  }
  const sums = logits(network, state);
  const total = sums.reduce((sum, value) => sum + Math.exp(value), 0);
  return Math.log(total) - sums.reduce((sum, value, k) => sum + y[k] * value, 0);
}

// dC/ds: zero but for the layer that is read out.
function nudge(network, state, y) {
  const slope = new Float64Array(network.units);
  const into = part(layerOf(network, network.readout.layer), slope);
  const error = outputs(network, state).map((value, k) => value - y[k]);
  if (network.readout.weights) {
    addBackward(into, error, network.readout.weights, into.length, error.length);
  } else {
    into.set(error);
  }
  return slope;
}

function activate(network, drive) {
  const state = new Float64Array(network.units);
  for (const layer of network.layers) {
    const { sigma } = ACTIVATIONS[layer.activation];
    part(layer, state).set(part(layer, drive).map(sigma));
  }
  return state;
}

// T(s); `drive` is that of the clamped input, computed once for a picture.
function mapped(network, drive, state, beta, y) {
  const total = recurrentDrive(network, state);
  const slope = beta ? nudge(network, state, y) : null;
  for (let k = 0; k < total.length; k++) {
    total[k] += drive[k];
    if (slope) total[k] -= beta * slope[k];
  }
  return activate(network, total);
}

// F(s). A link is in the drives of both its ends, so that half of s dPhi/ds is its share of Phi.
function totalEnergy(network, drive, state, beta, y) {
  const sent = recurrentDrive(network, state);
  let energy = beta ? beta * cost(network, state, y) : 0;
  for (let k = 0; k < state.length; k++) energy -= state[k] * (drive[k] + sent[k] / 2);
  for (const layer of network.layers) {
    const { convex } = ACTIVATIONS[layer.activation];
    for (const value of part(layer, state)) energy += convex(value);
  }
  return energy;
}
