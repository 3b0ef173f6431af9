// From strokes of a pen to the pixels that the network was trained on.

// Points are between 0 and 1. The strokes are moved and stretched as the pictures of the data
// were: into a box of `view.box` pixels in the middle of `view.size`, by their bounds or, with
// `view.balanced`, by their mass. A pixel is the share of its fine cells that the pen covers. Where
// all pictures of the data have about as much ink, the pen is widened until a drawing has it too.
function rasterise(strokes, view) {
  if (!strokes.some((stroke) => stroke.length)) return new Float64Array(view.size ** 2);
  if (view.ink === null) return drawn(strokes, view, view.radius);
  const mean = (pixels) => pixels.reduce((sum, value) => sum + value, 0) / pixels.length;
  let [thin, thick] = [view.radius, 3 * view.radius];
  for (let k = 0; k < 8; k++) {
    const middle = (thin + thick) / 2;
    if (mean(drawn(strokes, view, middle)) > view.ink) thick = middle;
    else thin = middle;
  }
  return drawn(strokes, view, thin);
}

// The pixels of a pen of this radius.
function drawn(strokes, view, radius) {
  const { size, box, fine, full, balanced } = view;
  const pixels = new Float64Array(size * size);
  const fitted = fit(strokes, size, box - 2 * radius);
  const cells = covered(fitted, size * fine, fine, radius);
  const [right, down] = balanced ? imbalance(cells, size * fine) : [0, 0];
  for (let i = 0; i < cells.length; i++) {
    const row = Math.floor(i / (size * fine)) - down;
    const column = (i % (size * fine)) - right;
    const inside = row >= 0 && column >= 0 && row < size * fine && column < size * fine;
    if (cells[i] && inside) pixels[Math.floor(row / fine) * size + Math.floor(column / fine)] += 1;
  }
  return pixels.map((count) => (full * count) / fine ** 2);
}

function fit(strokes, size, room) {
  const points = strokes.flat();
  const [xs, ys] = [points.map((point) => point[0]), points.map((point) => point[1])];
  const [left, right] = [Math.min(...xs), Math.max(...xs)];
  const [top, bottom] = [Math.min(...ys), Math.max(...ys)];
  const scale = room / Math.max(right - left, bottom - top, 0.12); // a dot stays small
  const place = ([x, y]) => [
    size / 2 + scale * (x - (left + right) / 2),
    size / 2 + scale * (y - (top + bottom) / 2),
  ];
  return strokes.map((stroke) => stroke.map(place));
}

function covered(strokes, side, fine, radius) {
  const cells = new Uint8Array(side * side);
  for (const stroke of strokes) {
    for (let k = 0; k < stroke.length; k++) {
      const [from, to] = [stroke[Math.max(k - 1, 0)], stroke[k]];
      const near = (a, b) => [
        Math.max(0, Math.floor((Math.min(a, b) - radius) * fine)),
        Math.min(side - 1, Math.ceil((Math.max(a, b) + radius) * fine)),
      ];
      const [[left, right], [top, bottom]] = [near(from[0], to[0]), near(from[1], to[1])];
      for (let row = top; row <= bottom; row++) {
        for (let column = left; column <= right; column++) {
          const point = [(column + 0.5) / fine, (row + 0.5) / fine];
          if (toSegment(point, from, to) <= radius) cells[row * side + column] = 1;
        }
      }
    }
  }
  return cells;
}

function toSegment([x, y], [ax, ay], [bx, by]) {
  const [dx, dy] = [bx - ax, by - ay];
  const length = dx * dx + dy * dy;
  const along = length ? clip(((x - ax) * dx + (y - ay) * dy) / length, 0, 1) : 0;
  return Math.hypot(x - ax - along * dx, y - ay - along * dy);
}

// How many fine cells the middle of the mass is away from the middle of the picture.
function imbalance(cells, side) {
  let [mass, across, down] = [0, 0, 0];
  cells.forEach((on, k) => {
    mass += on;
    across += on * (k % side);
    down += on * Math.floor(k / side);
  });
  const middle = (side - 1) / 2;
  return [Math.round(across / mass - middle), Math.round(down / mass - middle)];
}

// A canvas to draw on with mouse, pen or finger. `told` gets the strokes after each change.
class Pad {
  constructor(canvas, told) {
    this.canvas = canvas;
    this.told = told;
    this.strokes = [];
    this.drawing = false;
    const on = (name, action) => canvas.addEventListener(name, action);
    on("pointerdown", (event) => this.begin(event));
    on("pointermove", (event) => this.go(event));
    for (const name of ["pointerup", "pointercancel"]) on(name, () => (this.drawing = false));
  }

  begin(event) {
    event.preventDefault();
    if (event.isTrusted) this.canvas.setPointerCapture(event.pointerId);
    if (this.showsPicture) this.strokes = [];
    this.showsPicture = false;
    this.drawing = true;
    this.strokes.push([]);
    this.go(event);
  }

  go(event) {
    if (!this.drawing) return;
    const edge = this.canvas.getBoundingClientRect();
    const along = (at, from, length) => clip((at - from) / length, 0, 1);
    const x = along(event.clientX, edge.left, edge.width);
    const y = along(event.clientY, edge.top, edge.height);
    this.strokes.at(-1).push([x, y]);
    this.show();
    this.told(this.strokes);
  }

  clear() {
    this.strokes = [];
    this.showsPicture = false;
    this.show();
  }

  show() {
    const pen = this.canvas.getContext("2d");
    const side = this.canvas.width;
    pen.clearRect(0, 0, side, side);
    Object.assign(pen, { lineWidth: side / 13, lineCap: "round", lineJoin: "round" });
    pen.strokeStyle = colour("--ink");
    for (const stroke of this.strokes) {
      pen.beginPath();
      stroke.forEach(([x, y], k) => pen[k ? "lineTo" : "moveTo"](x * side, y * side));
      if (stroke.length === 1) pen.lineTo(stroke[0][0] * side, stroke[0][1] * side);
      pen.stroke();
    }
  }
}
