// Arrays as the page holds them: bytes in base64 become numbers in double precision.

function decode(block) {
  const bytes = Uint8Array.from(atob(block.base64), (letter) => letter.charCodeAt(0));
  const kind = block.dtype === "float32" ? Float32Array : Float64Array;
  return Float64Array.from(new kind(bytes.buffer));
}

// out += a W, with W (rows, columns) row by row.
function addForward(out, a, weights, rows, columns) {
  for (let i = 0; i < rows; i++) {
    const from = i * columns;
    for (let j = 0; j < columns; j++) out[j] += a[i] * weights[from + j];
  }
}

// out += b W'.
function addBackward(out, b, weights, rows, columns) {
  for (let i = 0; i < rows; i++) {
    const from = i * columns;
    let sum = 0;
    for (let j = 0; j < columns; j++) sum += weights[from + j] * b[j];
    out[i] += sum;
  }
}

function largest(values) {
  let most = 0;
  for (const value of values) most = Math.max(most, Math.abs(value));
  return most;
}

function distance(a, b) {
  let most = 0;
  for (let k = 0; k < a.length; k++) most = Math.max(most, Math.abs(a[k] - b[k]));
  return most;
}

// Noise that comes again in the same order after a new start: mulberry32, then Box and Muller.
function gaussians(seed) {
  let word = seed >>> 0;
  const uniform = () => {
    word = (word + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(word ^ (word >>> 15), word | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}
