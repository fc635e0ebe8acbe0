// Colour and shape of a code, the same in tables, legend and map: colours first, then shapes.
function colourOf(code) { return code % payload.marks.colours; }
function shapeOf(code) { return Math.floor(code / payload.marks.colours) % payload.marks.shapes.length; }
function markOf(code) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", "svg"), use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  made.setAttribute("class", "mark k" + colourOf(code)); made.setAttribute("viewBox", "-1.5 -1.5 3 3"); made.setAttribute("aria-hidden", "true");
  use.setAttribute("href", "#s" + shapeOf(code));
  made.appendChild(use);
  return made;
}
function rgb(colour) {
  const value = parseInt(colour.slice(1), 16);
  return [value >> 16 & 255, value >> 8 & 255, value & 255];
}
function categoryColours() {
  const found = [];
  for (let k = 0; k < payload.marks.colours; k++) found.push(rgb(css("--c" + k)));
  return found;
}
function shadeColours() {
  // 255 shades between five stops; the last one is for what is missing.
  const stops = [0, 1, 2, 3, 4].map(function (k) { return rgb(css("--s" + k)); }), found = [];
  for (let i = 0; i < 255; i++) {
    const at = i / 254 * 4, k = Math.min(3, Math.floor(at)), part = at - k;
    found.push([0, 1, 2].map(function (j) { return Math.round(stops[k][j] + part * (stops[k + 1][j] - stops[k][j])); }));
  }
  found.push(rgb(css("--none")));
  return found;
}

// A mark as a small picture of how much it covers each pixel; drawing 100,000 paths would take too long.
const stamps = new Map();
function stampOf(shape, radius) {
  const key = shape + ":" + radius.toFixed(1);
  if (!stamps.has(key)) {
    const half = Math.ceil(1.3 * radius), side = 2 * half + 1, canvas = element("canvas");
    canvas.width = canvas.height = side;
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.translate(half + .5, half + .5); context.scale(radius, radius);
    context.fill(new Path2D(payload.marks.shapes[shape]));
    const pixels = context.getImageData(0, 0, side, side).data, found = [];
    for (let i = 0; i < side * side; i++) {
      if (pixels[4 * i + 3] > 8) found.push({ x: i % side - half, y: Math.floor(i / side) - half, cover: pixels[4 * i + 3] });
    }
    if (stamps.size > 200) stamps.clear();
    stamps.set(key, { half, found });
  }
  return stamps.get(key);
}
function Painter(image, side, paper, radius) {
  // Puts marks into a picture; those at its edge are left out where they reach beyond it.
  const pixels = image.data, [r0, g0, b0] = rgb(paper), half = stampOf(0, radius).half;
  new Uint32Array(pixels.buffer).fill((255 << 24 | b0 << 16 | g0 << 8 | r0) >>> 0);
  const shapes = payload.marks.shapes.map(function (_, k) {
    const found = stampOf(k, radius).found;
    return { at: Int32Array.from(found, function (p) { return 4 * (p.y * side + p.x); }), cover: Int32Array.from(found, function (p) { return p.cover; }) };
  });
  return function (x, y, shape, colour, opacity) {
    x = Math.round(x); y = Math.round(y);
    if (x < half || y < half || x >= side - half || y >= side - half) return;
    const base = 4 * (y * side + x), { at, cover } = shapes[shape], r = colour[0], g = colour[1], b = colour[2];
    for (let i = 0; i < at.length; i++) {
      const p = base + at[i], a = cover[i] * opacity >> 8;
      pixels[p] += (r - pixels[p]) * a >> 8;
      pixels[p + 1] += (g - pixels[p + 1]) * a >> 8;
      pixels[p + 2] += (b - pixels[p + 2]) * a >> 8;
    }
  };
}
