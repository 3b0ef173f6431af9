// What is seen: heat maps, bars and curves, in the colours of the page.

const find = (id) => document.getElementById(id);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const channels = (hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));

// A shade between the colours of the lowest, the middle and the highest value; -1 <= value <= 1.
function shades() {
  const [low, middle, high] = ["--low", "--middle", "--high"].map((name) => channels(colour(name)));
  return (value) => {
    const share = Math.min(1, Math.abs(value));
    const end = value < 0 ? low : high;
    return middle.map((from, k) => Math.round(from + share * (end[k] - from)));
  };
}

// Values as squares, row by row; `reach` is the value of the full colour.
function heat(canvas, values, columns, reach) {
  const rows = Math.ceil(values.length / columns);
  const side = Math.max(1, Math.floor(640 / Math.max(columns, rows)));
  const gap = side > 24 ? 2 : side > 8 ? 1 : 0;
  if (canvas.width !== columns * side) canvas.width = columns * side;
  if (canvas.height !== rows * side) canvas.height = rows * side;
  const pen = canvas.getContext("2d");
  const shade = shades();
  pen.clearRect(0, 0, canvas.width, canvas.height);
  values.forEach((value, k) => {
    pen.fillStyle = `rgb(${shade(value / reach).join(" ")})`;
    const [left, top] = [(k % columns) * side, Math.floor(k / columns) * side];
    pen.fillRect(left, top, side - gap, side - gap);
  });
}

// One row for each class: its name, a bar, a number.
class Bars {
  constructor(list, names) {
    this.rows = names.map((name) => {
      const row = document.createElement("li");
      const [label, track, bar, number] = ["b", "span", "i", "output"].map((kind) =>
        document.createElement(kind),
      );
      label.textContent = name;
      track.append(bar);
      row.append(label, track, number);
      list.append(row);
      return { row, bar, number };
    });
  }

  show(values, target) {
    const best = values.indexOf(Math.max(...values));
    this.rows.forEach(({ row, bar, number }, k) => {
      bar.style.width = `${100 * clip(values[k], 0, 1)}%`;
      number.textContent = `${(100 * values[k]).toFixed(1)} %`;
      row.dataset.value = values[k];
      row.classList.toggle("best", k === best);
      row.classList.toggle("target", k === target);
    });
    return best;
  }
}

const WIDTH = 300;
const HEIGHT = 110;

// Draws a line through values from left to right in an SVG of WIDTH x HEIGHT; null is a gap.
function curve(svg, values, { logarithmic = false, name, steps }) {
  const known = values.filter((value) => value !== null && Number.isFinite(value));
  const height = (value) => (logarithmic ? Math.log10(Math.max(value, 1e-16)) : value);
  const heights = known.map(height);
  const [low, high] = heights.length ? [Math.min(...heights), Math.max(...heights)] : [0, 1];
  const room = Math.max(high - low, 1e-9);
  const last = Math.max(values.length - 1, 8);
  const place = (value, k) => [
    (k / last) * WIDTH,
    6 + (HEIGHT - 12) * (1 - (height(value) - low) / room),
  ];
  let path = "";
  let broken = true;
  values.forEach((value, k) => {
    if (value === null || !Number.isFinite(value)) {
      broken = true;
      return;
    }
    path += `${broken ? "M" : "L"}${place(value, k).map((at) => at.toFixed(1)).join(" ")}`;
    broken = false;
  });
  svg.querySelector("path").setAttribute("d", path);
  const end = known.length ? `M${place(known.at(-1), values.length - 1).join(" ")}h0` : "";
  svg.querySelector(".dot").setAttribute("d", end);
  const digits = (value) => (logarithmic ? value.toExponential(0) : value.toFixed(2));
  const shown = (value) => digits(value).replaceAll("-", "\u2212");
  find(`${name}-steps`).textContent = `${steps} steps`;
  find(`${name}-high`).textContent = known.length ? shown(Math.max(...known)) : "";
  find(`${name}-low`).textContent = known.length ? shown(Math.min(...known)) : "";
}
