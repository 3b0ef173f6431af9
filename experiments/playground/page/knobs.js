// What the knobs do to a network and to its states. A knob that is off is null or zero.

// The nearest of the numbers that `bits` can tell apart; `signed` numbers reach as far below zero.
function rounding(bits, reach, signed) {
  const most = signed ? 2 ** (bits - 1) - 1 : 2 ** bits - 1;
  const grain = reach / most;
  return (value) => grain * clip(Math.floor(value / grain + 0.5), signed ? -most : 0, most);
}

function rounded(weights, bits) {
  const reach = largest(weights);
  return reach ? weights.map(rounding(bits, reach, true)) : weights;
}

// The network with its recurrent part scaled to a norm, and then with rounded weights.
function changed(network, { norm, weightBits }) {
  const scale = norm === null || !network.norm ? 1 : norm / network.norm;
  const links = network.links.map((link) => {
    let weights = link.weights;
    if (!link.clamped && scale !== 1) weights = weights.map((weight) => scale * weight);
    if (weightBits && link.source !== "one") weights = rounded(weights, weightBits);
    return { ...link, weights };
  });
  const { readout } = network;
  const read = readout.weights && weightBits ? rounded(readout.weights, weightBits) : readout.weights;
  return { ...network, links, readout: { ...readout, weights: read } };
}

// The state as poor parts would hold it: noise first, then few bits.
function spoiled(network, state, { noise, stateBits }, gaussian) {
  if (!noise && !stateBits) return state;
  for (const layer of network.layers) {
    const units = part(layer, state);
    const { reach, signed } = layer;
    const round = stateBits ? rounding(stateBits, reach, signed) : (value) => value;
    for (let k = 0; k < units.length; k++) {
      const value = noise ? units[k] + noise * gaussian() : units[k];
      units[k] = round(noise ? clip(value, layer.low ?? -Infinity, layer.high ?? Infinity) : value);
    }
  }
  return state;
}
