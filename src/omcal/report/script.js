"use strict";
(function () {
  const root = document.documentElement;
  const payload = JSON.parse(document.getElementById("payload").textContent);
  const redraws = [];

  function bytes(text) {
    const raw = atob(text);
    const out = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
    return out;
  }
  function css(name) { return getComputedStyle(root).getPropertyValue(name).trim(); }
  function isDark() {
    const set = root.dataset.theme;
    return set ? set === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }
  function redraw() { for (const draw of redraws) draw(); }
  function fit(canvas) {
    // Sharp on every screen: as many pixels as the screen has.
    const box = canvas.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
    const width = Math.max(1, Math.round(box.width * ratio)), height = Math.max(1, Math.round(box.height * ratio));
    if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
    return { width, height, ratio };
  }

  const button = document.getElementById("theme");
  function nameButton() { button.textContent = isDark() ? "Light" : "Dark"; }
  button.addEventListener("click", function () {
    root.dataset.theme = isDark() ? "light" : "dark";
    nameButton(); redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () { nameButton(); redraw(); });
  nameButton();
  window.addEventListener("beforeprint", function () {
    for (const closed of document.querySelectorAll("details:not([open])")) { closed.open = true; closed.dataset.opened = "print"; }
    root.dataset.before = root.dataset.theme || ""; root.dataset.theme = "light"; redraw();
  });
  window.addEventListener("afterprint", function () {
    for (const opened of document.querySelectorAll("details[data-opened]")) { opened.open = false; delete opened.dataset.opened; }
    if (root.dataset.before) root.dataset.theme = root.dataset.before; else delete root.dataset.theme;
    redraw();
  });

  // Colour and shape of a cluster; seven colours that all kinds of colour vision tell apart, six shapes.
  const SHAPES = ["circle", "square", "triangle", "diamond", "plus", "ring"];
  function mark(context, cluster, x, y, r) {
    const shape = SHAPES[Math.floor(cluster / 7) % SHAPES.length];
    context.beginPath();
    if (shape === "circle" || shape === "ring") context.arc(x, y, r, 0, 7);
    else if (shape === "square") context.rect(x - r * .9, y - r * .9, r * 1.8, r * 1.8);
    else if (shape === "triangle") { context.moveTo(x, y - r * 1.2); context.lineTo(x + r * 1.1, y + r * .8); context.lineTo(x - r * 1.1, y + r * .8); context.closePath(); }
    else if (shape === "diamond") { context.moveTo(x, y - r * 1.25); context.lineTo(x + r * 1.25, y); context.lineTo(x, y + r * 1.25); context.lineTo(x - r * 1.25, y); context.closePath(); }
    else { context.rect(x - r * 1.2, y - r * .4, r * 2.4, r * .8); context.rect(x - r * .4, y - r * 1.2, r * .8, r * 2.4); }
    if (shape === "ring") { context.lineWidth = r * .6; context.stroke(); } else context.fill();
  }
  function colours() { return [0, 1, 2, 3, 4, 5, 6].map(function (i) { return css("--c" + i); }); }

  function setUpMap(map) {
    const canvas = document.getElementById("map"), tip = document.getElementById("tip"), said = document.getElementById("said");
    const position = new Uint16Array(bytes(map.positions).buffer), n = map.clusters.length;
    let chosen = -1, selected = null;
    const xs = new Float64Array(n), ys = new Float64Array(n);
    for (let i = 0; i < n; i++) { xs[i] = .03 + .94 * position[2 * i] / 65535; ys[i] = .97 - .94 * position[2 * i + 1] / 65535; }
    const middle = centres();

    function centres() {
      // The sample nearest to the mean of a cluster: a mean may lie where no sample does.
      const sum = {};
      for (let i = 0; i < n; i++) {
        const s = sum[map.clusters[i]] || (sum[map.clusters[i]] = { x: 0, y: 0, n: 0 });
        s.x += xs[i]; s.y += ys[i]; s.n += 1;
      }
      const best = {};
      for (let i = 0; i < n; i++) {
        const c = map.clusters[i], s = sum[c], d = Math.hypot(xs[i] - s.x / s.n, ys[i] - s.y / s.n);
        if (!best[c] || d < best[c].d) best[c] = { d, i };
      }
      return best;
    }
    function describe(i) {
      const lines = [map.names ? map.names[i] : "sample " + map.samples[i], "cluster " + map.clusters[i]];
      if (map.classes) lines.push("class " + map.class_names[map.classes[i]]);
      lines.push("certainty " + (map.certainty[i] / 100).toFixed(2));
      return lines;
    }
    function draw() {
      const size = fit(canvas), context = canvas.getContext("2d"), palette = colours();
      context.clearRect(0, 0, size.width, size.height);
      const r = Math.max(1.6, Math.min(4, 130 / Math.sqrt(n))) * size.ratio;
      for (const front of [false, true]) {
        for (let i = 0; i < n; i++) {
          const c = map.clusters[i], lit = chosen < 0 || chosen === c;
          if (lit !== front) continue;
          context.globalAlpha = lit ? .78 : .08;
          context.fillStyle = context.strokeStyle = palette[c % 7];
          mark(context, c, xs[i] * size.width, ys[i] * size.height, r);
        }
      }
      context.globalAlpha = 1;
      context.font = "600 " + 13 * size.ratio + "px system-ui, sans-serif";
      context.textAlign = "center"; context.textBaseline = "middle"; context.lineJoin = "round";
      if (map.n_clusters <= 60 || chosen >= 0) for (const c in middle) {
        if (chosen >= 0 && chosen !== Number(c)) continue;
        const x = xs[middle[c].i] * size.width, y = ys[middle[c].i] * size.height;
        context.lineWidth = 4 * size.ratio; context.strokeStyle = css("--card"); context.strokeText(c, x, y);
        context.fillStyle = css("--ink"); context.fillText(c, x, y);
      }
      if (selected !== null) {
        context.lineWidth = 2.5 * size.ratio; context.strokeStyle = css("--ink");
        context.beginPath(); context.arc(xs[selected] * size.width, ys[selected] * size.height, r + 4 * size.ratio, 0, 7); context.stroke();
      }
    }
    function select(i, announce) {
      selected = i; draw();
      if (i === null) { tip.hidden = true; return; }
      tip.textContent = "";
      describe(i).forEach(function (line, k) {
        const part = document.createElement(k ? "div" : "strong"); part.textContent = line; tip.appendChild(part);
      });
      tip.hidden = false;
      const box = canvas.getBoundingClientRect(), x = xs[i] * box.width, y = ys[i] * box.height;
      tip.style.left = Math.max(0, Math.min(box.width - tip.offsetWidth, x + 14)) + "px";
      tip.style.top = (y + 16 + tip.offsetHeight > box.height ? y - tip.offsetHeight - 12 : y + 16) + "px";
      if (announce) said.textContent = describe(i).join(", ");
    }
    function nearest(x, y, limit) {
      let best = null, least = limit;
      for (let i = 0; i < n; i++) {
        if (chosen >= 0 && map.clusters[i] !== chosen) continue;
        const d = Math.hypot(xs[i] - x, ys[i] - y);
        if (d < least) { least = d; best = i; }
      }
      return best;
    }
    function point(event) {
      const box = canvas.getBoundingClientRect();
      const hit = nearest((event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height, 18 / box.width);
      if (hit !== selected) select(hit, false);
    }
    canvas.addEventListener("pointermove", point);
    canvas.addEventListener("pointerdown", point);
    canvas.addEventListener("pointerleave", function () { if (document.activeElement !== canvas) select(null); });
    canvas.addEventListener("blur", function () { select(null); });
    canvas.addEventListener("focus", function () { if (selected === null && canvas.matches(":focus-visible")) select(nearest(.5, .5, 9), true); });
    const STEP = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    canvas.addEventListener("keydown", function (event) {
      if (event.key === "Escape") { choose(-1); select(null); return; }
      const step = STEP[event.key];
      if (!step) return;
      event.preventDefault();
      if (selected === null) { select(nearest(.5, .5, 9), true); return; }
      let best = null, least = Infinity;
      for (let i = 0; i < n; i++) {
        if (i === selected || (chosen >= 0 && map.clusters[i] !== chosen)) continue;
        const dx = xs[i] - xs[selected], dy = ys[i] - ys[selected];
        const along = dx * step[0] + dy * step[1], across = Math.abs(dx * step[1]) + Math.abs(dy * step[0]);
        if (along <= 1e-6 || across > along) continue;
        if (along + across < least) { least = along + across; best = i; }
      }
      if (best !== null) select(best, true);
    });

    const legend = document.getElementById("legend");
    function choose(c) {
      chosen = chosen === c ? -1 : c;
      for (const one of legend.querySelectorAll("button")) one.setAttribute("aria-pressed", String(Number(one.dataset.cluster) === chosen));
      draw();
    }
    for (const one of legend.querySelectorAll("button")) {
      one.addEventListener("click", function () { choose(Number(one.dataset.cluster)); });
    }
    redraws.push(draw, function () {
      const palette = colours();
      for (const one of legend.querySelectorAll("button")) {
        const small = one.querySelector("canvas"), size = fit(small), context = small.getContext("2d"), c = Number(one.dataset.cluster);
        context.clearRect(0, 0, size.width, size.height);
        context.fillStyle = context.strokeStyle = palette[c % 7];
        mark(context, c, size.width / 2, size.height / 2, 5.5 * size.ratio);
      }
    });
  }

  function setUpMatrix(id, text, side, boundaries) {
    const canvas = document.getElementById(id), values = bytes(text);
    redraws.push(function () {
      const size = fit(canvas), context = canvas.getContext("2d");
      const shade = css("--shade").split(",").map(Number), image = new ImageData(side, side);
      for (let i = 0; i < values.length; i++) {
        image.data[4 * i] = shade[0]; image.data[4 * i + 1] = shade[1]; image.data[4 * i + 2] = shade[2]; image.data[4 * i + 3] = values[i];
      }
      const small = document.createElement("canvas");
      small.width = small.height = side; small.getContext("2d").putImageData(image, 0, 0);
      context.clearRect(0, 0, size.width, size.height);
      context.imageSmoothingEnabled = false; context.drawImage(small, 0, 0, size.width, size.height);
      context.strokeStyle = css("--warm"); context.globalAlpha = .55; context.lineWidth = size.ratio;
      context.beginPath();
      for (const b of boundaries) {
        const at = b / side * size.width;
        context.moveTo(at, 0); context.lineTo(at, size.height); context.moveTo(0, at); context.lineTo(size.width, at);
      }
      context.stroke(); context.globalAlpha = 1;
    });
  }

  for (const one of document.querySelectorAll("button[data-copy]")) {
    one.addEventListener("click", function () {
      const text = document.getElementById(one.dataset.copy).textContent;
      const area = document.createElement("textarea");
      area.value = text; document.body.appendChild(area); area.select();
      const done = document.execCommand("copy");
      area.remove(); one.focus();
      one.textContent = done ? "Copied" : "Press Ctrl+C";
    });
  }

  if (payload.map) setUpMap(payload.map);
  if (payload.structure) {
    setUpMatrix("before", payload.structure.before, payload.structure.side, payload.structure.boundaries);
    setUpMatrix("after", payload.structure.after, payload.structure.side, payload.structure.boundaries);
  }
  redraw();
  let waiting = 0;
  window.addEventListener("resize", function () { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(redraw); });
})();
