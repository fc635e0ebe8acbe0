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
    const pixels = context.getImageData(0, 0, side, side).data, cover = [];
    for (let i = 0; i < side * side; i++) {
      if (pixels[4 * i + 3] > 8) cover.push(i % side - half, Math.floor(i / side) - half, pixels[4 * i + 3]);
    }
    if (stamps.size > 200) stamps.clear();
    stamps.set(key, { half, cover: Int16Array.from(cover) });
  }
  return stamps.get(key);
}
function paint(pixels, width, height, x, y, stamp, colour, opacity) {
  x = Math.round(x); y = Math.round(y);
  const cover = stamp.cover, [r, g, b] = colour;
  for (let i = 0; i < cover.length; i += 3) {
    const px = x + cover[i], py = y + cover[i + 1];
    if (px < 0 || py < 0 || px >= width || py >= height) continue;
    const at = 4 * (py * width + px), a = cover[i + 2] * opacity >> 8;
    pixels[at] += (r - pixels[at]) * a >> 8;
    pixels[at + 1] += (g - pixels[at + 1]) * a >> 8;
    pixels[at + 2] += (b - pixels[at + 2]) * a >> 8;
  }
}
