function Samples(map, arrays) {
  // What is known of each sample, under one roof.
  const n = map.n, xs = new Float32Array(n), ys = new Float32Array(n);
  for (let i = 0; i < n; i++) { xs[i] = .03 + .94 * arrays.xy[2 * i] / 65535; ys[i] = .97 - .94 * arrays.xy[2 * i + 1] / 65535; }
  function number(i) { return arrays.sample ? arrays.sample[i] : i; }
  return {
    n, xs, ys, arrays, number,
    id(i) { return arrays.names ? arrays.names[i] : String(number(i)); },
    title(i) { return arrays.names ? arrays.names[i] : "sample " + number(i); },
    certainty(i) { return arrays.certainty[i] / 254; },
    className(i) { return arrays.class ? map.colours[1].names[arrays.class[i]] : null; },
    part(name, v, i) { const value = arrays[name][v * n + i]; return value === 255 ? null : value / 127 - 1; },
    near(v, i) {
      const found = [], K = map.n_near;
      for (let k = 0; k < K; k++) {
        const at = (i * map.views.length + v) * K + k, other = arrays.near[at] + (arrays.near_high ? arrays.near_high[at] << 16 : 0);
        if (other < n) found.push(other);
      }
      return found;
    },
  };
}

function MapView(map, samples) {
  const canvas = byId("map"), tip = byId("tip"), box = byId("box"), said = byId("said"), n = samples.n;
  const state = { k: 1, x: 0, y: 0, colour: map.colours[0], chosen: new Set(), open: null, hover: null, marked: null, selecting: false };
  const listeners = { open() {}, mark() {} };
  // In an order that favours no cluster: what is drawn last covers the rest.
  const order = new Uint32Array(n);
  for (let i = 0, seed = 1; i < n; i++) {
    seed ^= seed << 13; seed ^= seed >>> 17; seed ^= seed << 5;
    const j = (seed >>> 0) % (i + 1);
    order[i] = order[j]; order[j] = i;
  }
  const middle = middles();

  function middles() {
    // The sample nearest to the mean of a cluster: a mean may lie where no sample does.
    const sums = new Map(), code = samples.arrays.cluster;
    for (let i = 0; i < n; i++) {
      const s = sums.get(code[i]) || { x: 0, y: 0, n: 0, d: Infinity, i: 0 };
      s.x += samples.xs[i]; s.y += samples.ys[i]; s.n += 1; sums.set(code[i], s);
    }
    for (let i = 0; i < n; i++) {
      const s = sums.get(code[i]), d = Math.hypot(samples.xs[i] - s.x / s.n, samples.ys[i] - s.y / s.n);
      if (d < s.d) { s.d = d; s.i = i; }
    }
    return sums;
  }
  function codes() {
    const { array, part } = state.colour;
    return part === undefined ? samples.arrays[array] : samples.arrays[array].subarray(part * n, (part + 1) * n);
  }
  function lit(i, code) { return (!state.chosen.size || state.chosen.has(code[i])) && (!state.marked || state.marked[i]); }
  function radius(ratio) { return Math.max(1.2, Math.min(4.5, 130 / Math.sqrt(n))) * Math.min(3, Math.pow(state.k, .4)) * ratio; }
  function place(i, size) { return [(samples.xs[i] * state.k + state.x) * size, (samples.ys[i] * state.k + state.y) * size]; }

  // The samples are a picture that is kept while only rings and labels change. Where it takes long, a part of them, which
  // is as random as their order, is drawn as long as the map moves.
  let image = null, stale = true, full = 0, hurried = false, settling = 0;
  function paintSamples(side, ratio) {
    const begun = performance.now(), code = codes(), categories = state.colour.names, some = state.chosen.size || state.marked;
    const colours = categories ? categoryColours() : shadeColours(), painter = Painter(image, side, css("--card"), radius(ratio));
    const count = hurried ? Math.min(n, Math.max(3000, Math.floor(n * 20 / full))) : n;
    for (const front of some ? [false, true] : [true]) {
      for (let j = 0; j < count; j++) {
        const i = order[j], c = code[i];
        if (some && lit(i, code) !== front) continue;
        const x = (samples.xs[i] * state.k + state.x) * side, y = (samples.ys[i] * state.k + state.y) * side;
        if (x < -20 || y < -20 || x > side + 20 || y > side + 20) continue;
        painter(x, y, categories ? shapeOf(c) : 0, colours[categories ? colourOf(c) : c], front ? 205 : 26);
      }
    }
    if (!hurried) full = performance.now() - begun;
  }
  function draw() {
    const ratio = devicePixelRatio || 1, side = Math.max(1, Math.round(canvas.getBoundingClientRect().width * ratio));
    const context = canvas.getContext("2d");
    if (canvas.width !== side || !image) { canvas.width = canvas.height = side; image = context.createImageData(side, side); stale = true; }
    if (stale) { paintSamples(side, ratio); stale = false; }
    context.putImageData(image, 0, 0);
    drawLabels(context, side, ratio);
    for (const i of [state.hover, state.open]) if (i !== null) ring(context, i, side, radius(ratio), ratio);
  }
  function drawLabels(context, side, ratio) {
    if (state.colour.array !== "cluster" || (map.n_clusters > 60 && !state.chosen.size)) return;
    context.font = "600 " + 13 * ratio + "px system-ui, sans-serif";
    context.textAlign = "center"; context.textBaseline = "middle"; context.lineJoin = "round";
    const labels = map.colours[0].names.map(function (name) { return name.replace(/^cluster (\d+: )?/, "").slice(0, 20); });
    for (const [c, s] of middle) {
      if (state.chosen.size && !state.chosen.has(c)) continue;
      const [x, y] = place(s.i, side);
      context.lineWidth = 4 * ratio; context.strokeStyle = css("--card"); context.strokeText(labels[c], x, y);
      context.fillStyle = css("--ink"); context.fillText(labels[c], x, y);
    }
  }
  function ring(context, i, side, r, ratio) {
    const [x, y] = place(i, side);
    context.lineWidth = 2.5 * ratio; context.strokeStyle = css("--ink");
    context.beginPath(); context.arc(x, y, r + 4 * ratio, 0, 7); context.stroke();
  }
  let asked = 0;
  function later() { if (!asked) asked = requestAnimationFrame(function () { asked = 0; draw(); }); }
  function anew() { stale = true; later(); }
  function moved() {
    if (n > 5000 && full > 20) {
      hurried = true;
      clearTimeout(settling);
      settling = setTimeout(function () { hurried = false; anew(); }, 150);
    }
    anew();
  }

  function describe(i) {
    const lines = [samples.title(i), map.colours[0].names[samples.arrays.cluster[i]]], known = samples.className(i);
    if (known !== null) lines.push("class " + known);
    lines.push("certainty " + percent(samples.certainty(i)));
    return lines;
  }
  function hover(i, announce) {
    state.hover = i; later();
    tip.hidden = i === null;
    if (i === null) return;
    tip.textContent = "";
    describe(i).forEach(function (line, k) { tip.appendChild(element(k ? "div" : "strong", "", line)); });
    const size = canvas.getBoundingClientRect().width, [x, y] = place(i, size);
    tip.style.left = Math.max(0, Math.min(size - tip.offsetWidth, x + 14)) + "px";
    tip.style.top = Math.max(0, y + 16 + tip.offsetHeight > size ? y - tip.offsetHeight - 12 : y + 16) + "px";
    if (announce) said.textContent = describe(i).join(", ");
  }
  function open(i) { state.open = i; if (i !== null) hover(null); later(); listeners.open(i); }

  function zoom(factor, x, y) {
    // (x, y), from 0 to 1, stays where it is.
    const k = Math.max(1, Math.min(400, state.k * factor)), change = k / state.k;
    move(x - (x - state.x) * change, y - (y - state.y) * change, k);
  }
  function move(x, y, k) {
    state.k = k === undefined ? state.k : k;
    state.x = Math.min(0, Math.max(1 - state.k, x)); state.y = Math.min(0, Math.max(1 - state.k, y));
    canvas.style.touchAction = state.k > 1 || state.selecting ? "none" : "pan-y";
    hover(null); moved();
  }
  function showAll() { move(0, 0, 1); }
  function centre(i, least) {
    const k = Math.max(state.k, least || 1);
    move(.5 - samples.xs[i] * k, .5 - samples.ys[i] * k, k);
  }
  function nearest(x, y, limit) {
    let best = null, least = limit * limit;
    const code = codes();
    for (let i = 0; i < n; i++) {
      const dx = samples.xs[i] * state.k + state.x - x, dy = samples.ys[i] * state.k + state.y - y, d = dx * dx + dy * dy;
      if (d < least && lit(i, code)) { least = d; best = i; }
    }
    return best;
  }
  function nextTo(from, dx, dy) {
    let best = null, least = Infinity;
    const code = codes();
    for (let i = 0; i < n; i++) {
      if (i === from || !lit(i, code)) continue;
      const x = samples.xs[i] - samples.xs[from], y = samples.ys[i] - samples.ys[from];
      const along = x * dx + y * dy, across = Math.abs(x * dy) + Math.abs(y * dx);
      if (along > 1e-6 && across <= along && along + across < least) { least = along + across; best = i; }
    }
    return best;
  }
  function markInside(x0, y0, x1, y1) {
    const found = new Uint8Array(n), code = codes();
    let count = 0;
    for (let i = 0; i < n; i++) {
      const x = samples.xs[i] * state.k + state.x, y = samples.ys[i] * state.k + state.y;
      if (x >= x0 && x <= x1 && y >= y0 && y <= y1 && (!state.chosen.size || state.chosen.has(code[i]))) { found[i] = 1; count += 1; }
    }
    mark(count ? found : null);
  }
  function mark(found) { state.marked = found; anew(); listeners.mark(found); }
  function colourBy(colour) { state.colour = colour; state.chosen.clear(); anew(); }
  function choose(code) { if (!state.chosen.delete(code)) state.chosen.add(code); anew(); }

  redraws.push(function () { stale = true; draw(); });
  return { canvas, box, state, listeners, samples, codes, draw, hover, open, zoom, move, showAll, centre, nearest, nextTo, markInside, mark, colourBy, choose };
}

function controls(view) {
  const { canvas, box, state } = view, fingers = new Map();
  let start = null, pinch = null;
  function at(event) {
    const frame = canvas.getBoundingClientRect();
    return { x: (event.clientX - frame.left) / frame.width, y: (event.clientY - frame.top) / frame.height, size: frame.width };
  }
  function showBox(p) {
    box.hidden = false;
    box.style.left = 100 * Math.min(start.x, p.x) + "%"; box.style.top = 100 * Math.min(start.y, p.y) + "%";
    box.style.width = 100 * Math.abs(p.x - start.x) + "%"; box.style.height = 100 * Math.abs(p.y - start.y) + "%";
  }
  function spread() {
    const [a, b] = Array.from(fingers.values());
    return { d: Math.hypot(a.x - b.x, a.y - b.y), x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
  }
  canvas.addEventListener("pointerdown", function (event) {
    const p = at(event);
    fingers.set(event.pointerId, p);
    if (fingers.size === 2) { pinch = spread(); start = null; box.hidden = true; return; }
    start = { x: p.x, y: p.y, left: state.x, top: state.y, moved: false, box: event.shiftKey || state.selecting };
    if (event.isTrusted) canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", function (event) {
    const p = at(event);
    if (fingers.has(event.pointerId)) fingers.set(event.pointerId, p);
    if (pinch && fingers.size === 2) {
      const now = spread();
      view.zoom(now.d / Math.max(pinch.d, .01), now.x, now.y);
      view.move(state.x + now.x - pinch.x, state.y + now.y - pinch.y);
      pinch = now;
    } else if (start) {
      if (Math.hypot(p.x - start.x, p.y - start.y) * p.size > 4) start.moved = true;
      if (start.moved && start.box) showBox(p);
      else if (start.moved) view.move(start.left + p.x - start.x, start.top + p.y - start.y);
    } else view.hover(view.nearest(p.x, p.y, 18 / p.size));
  });
  function end(event) {
    const p = at(event), begun = start;
    fingers.delete(event.pointerId);
    if (fingers.size < 2) pinch = null;
    start = null; box.hidden = true;
    if (!begun || event.type === "pointercancel") return;
    if (begun.moved && begun.box) view.markInside(Math.min(p.x, begun.x), Math.min(p.y, begun.y), Math.max(p.x, begun.x), Math.max(p.y, begun.y));
    else if (!begun.moved) view.open(view.nearest(p.x, p.y, 18 / p.size));
  }
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
  canvas.addEventListener("pointerleave", function () { if (!start) view.hover(null); });
  canvas.addEventListener("blur", function () { view.hover(null); });
  canvas.addEventListener("wheel", function (event) {
    // A page that scrolls must not stop at the map: it zooms when it was clicked, or with Ctrl.
    if (!event.ctrlKey && document.activeElement !== canvas) return;
    event.preventDefault();
    const p = at(event);
    view.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? .01 : .002)), p.x, p.y);
  }, { passive: false });
  canvas.addEventListener("dblclick", function (event) { const p = at(event); view.zoom(2, p.x, p.y); });

  const STEP = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  canvas.addEventListener("keydown", function (event) {
    const step = STEP[event.key];
    if (event.key === "Escape") { view.hover(null); view.open(null); view.mark(null); }
    else if (event.key === "+" || event.key === "=") view.zoom(1.5, .5, .5);
    else if (event.key === "-") view.zoom(1 / 1.5, .5, .5);
    else if (event.key === "0") view.showAll();
    else if (event.key === "Enter" && state.hover !== null) view.open(state.hover);
    else if (step && event.shiftKey) view.move(state.x - .15 * step[0], state.y - .15 * step[1]);
    else if (step) {
      const from = state.hover === null ? state.open : state.hover;
      const next = from === null ? view.nearest(.5, .5, 9) : view.nextTo(from, step[0], step[1]);
      if (next !== null) {
        const x = view.samples.xs[next] * state.k + state.x, y = view.samples.ys[next] * state.k + state.y;
        if (x < 0 || y < 0 || x > 1 || y > 1) view.centre(next);
        view.hover(next, true);
      }
    } else return;
    event.preventDefault();
  });
  byId("in").addEventListener("click", function () { view.zoom(1.6, .5, .5); });
  byId("out").addEventListener("click", function () { view.zoom(1 / 1.6, .5, .5); });
  byId("all").addEventListener("click", function () { view.showAll(); view.mark(null); });
  byId("select").addEventListener("click", function () {
    state.selecting = !state.selecting;
    this.setAttribute("aria-pressed", String(state.selecting));
    view.move(state.x, state.y);
  });
}
