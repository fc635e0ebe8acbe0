// What stands beside the map: the list of colours, the card of a sample, the samples that are marked.
function legend(map, view) {
  const list = byId("legend"), filter = byId("filter"), scale = byId("scale"), choice = byId("colour");
  map.colours.forEach(function (colour, k) {
    const option = element("option", "", colour.title);
    option.value = k; choice.appendChild(option);
  });
  function counts(length) {
    const found = new Array(length).fill(0);
    for (const code of view.codes()) found[code] += 1;
    return found;
  }
  function number(value, colour) { return colour.plain ? String(Number(value.toPrecision(4))) : percent(value); }
  function build() {
    const colour = view.state.colour;
    list.hidden = !colour.names; scale.hidden = Boolean(colour.names);
    filter.hidden = !colour.names || colour.names.length <= 12; filter.value = "";
    if (!colour.names) {
      scale.textContent = "";
      scale.append(element("span", "", number(colour.low, colour)), element("i", "ramp"), element("span", "", number(colour.high, colour)));
      return;
    }
    const sizes = colour.array === "cluster" ? map.sizes : counts(colour.names.length);
    list.textContent = "";
    list.setAttribute("aria-label", colour.title);
    colour.names.forEach(function (name, code) {
      const one = button(undefined, function () {
        view.choose(code);
        one.setAttribute("aria-pressed", String(view.state.chosen.has(code)));
      });
      one.dataset.code = code; one.setAttribute("aria-pressed", "false");
      one.append(markOf(code), element("span", "", name), element("span", "count", sizes[code].toLocaleString("en")));
      const item = element("li");
      item.appendChild(one); list.appendChild(item);
    });
  }
  filter.addEventListener("input", function () {
    const text = filter.value.toLowerCase();
    for (const item of list.children) item.hidden = !item.textContent.toLowerCase().includes(text);
  });
  choice.addEventListener("change", function () { view.colourBy(map.colours[choice.value]); build(); });
  build();
}

function card(map, view) {
  const place = byId("card"), samples = view.samples;
  function jump(i) {
    const one = button(samples.title(i), function () { view.centre(i, 4); view.open(i); }, "link");
    one.prepend(markOf(samples.arrays.cluster[i]));
    return one;
  }
  function line(title, ...content) {
    const made = element("div", "line");
    made.append(element("span", "quiet", title), ...content);
    return made;
  }
  function clusterMark(code) {
    const made = element("span", "", map.colours[0].names[code]);
    made.prepend(markOf(code));
    return made;
  }
  function viewPart(v, i) {
    const part = samples.part("decision", v, i), made = element("div", "view"), head = element("div", "line");
    head.append(element("span", "", map.views[v]), element("strong", "", part === null ? "absent" : (part < 0 ? "−" : "") + percent(Math.abs(part))));
    made.appendChild(head);
    if (part === null) return made;
    const track = element("div", "track"), bar = element("i", part < 0 ? "against" : "");
    bar.style.width = 50 * Math.abs(part) + "%";
    bar.style.left = part < 0 ? 50 - 50 * Math.abs(part) + "%" : "50%";
    track.appendChild(bar); made.appendChild(track);
    const near = samples.near(v, i);
    if (near.length) {
      const listed = element("div", "near");
      listed.append(element("span", "quiet", "near: "), ...near.map(jump));
      made.appendChild(listed);
    }
    return made;
  }
  view.listeners.open = function (i) {
    place.hidden = i === null;
    if (i === null) return;
    place.textContent = "";
    const head = element("div", "head"), known = samples.className(i), code = samples.arrays.cluster[i];
    const close = button("×", function () { view.open(null); view.canvas.focus(); });
    close.setAttribute("aria-label", "Close");
    head.append(element("strong", "", samples.title(i)), close);
    place.append(head, line("cluster", clusterMark(code)));
    if (known !== null) place.appendChild(line("class", element("span", "", known)));
    place.append(line("certainty", element("span", "", percent(samples.certainty(i)))), line("next best", clusterMark(samples.arrays.second[i])));
    if (map.views.length > 1) {
      const words = "What each view adds to the difference between the two; to the left it speaks for the next best.";
      place.appendChild(element("p", "quiet", words));
    }
    for (let v = 0; v < map.views.length; v++) place.appendChild(viewPart(v, i));
    byId("said").textContent = "Opened " + samples.title(i) + ", " + map.colours[0].names[code];
  };
}

function labelsOf(map, view, chosen) {
  const samples = view.samples, known = Boolean(samples.arrays.class);
  const rows = [["id", "cluster", "certainty", "next_best", ...(known ? ["class"] : [])]];
  for (let i = 0; i < samples.n; i++) {
    if (chosen && !chosen[i]) continue;
    const row = [samples.id(i), samples.arrays.cluster[i], samples.certainty(i).toFixed(3), samples.arrays.second[i]];
    rows.push(known ? [...row, samples.className(i)] : row);
  }
  return csv(rows);
}

function markedPart(map, view) {
  const place = byId("marked");
  view.listeners.mark = function (found) {
    place.hidden = !found;
    if (!found) return;
    const counts = new Map();
    let total = 0;
    found.forEach(function (is, i) { if (is) { total += 1; const c = view.samples.arrays.cluster[i]; counts.set(c, (counts.get(c) || 0) + 1); } });
    place.textContent = "";
    place.appendChild(element("strong", "", total.toLocaleString("en") + (total === 1 ? " sample is marked" : " samples are marked")));
    for (const [c, count] of Array.from(counts).sort(function (a, b) { return b[1] - a[1]; }).slice(0, 5)) {
      const row = element("div", "line"), name = element("span", "", map.colours[0].names[c]);
      name.prepend(markOf(c));
      row.append(name, element("span", "", percent(count / total)));
      place.appendChild(row);
    }
    if (counts.size > 5) place.appendChild(element("p", "quiet", "and " + (counts.size - 5) + " more clusters"));
    const take = element("div", "take");
    take.append(button("Take them (CSV)", function () { save("marked.csv", "text/csv", labelsOf(map, view, found)); }),
      button("Clear", function () { view.mark(null); }));
    place.appendChild(take);
    byId("said").textContent = total + " samples are marked";
  };
}

function search(view) {
  const input = byId("find"), hits = byId("hits"), samples = view.samples, MOST = 12;
  function go(i) { hits.hidden = true; input.value = samples.id(i); view.centre(i, 4); view.open(i); }
  function find(text) {
    const exact = [], begins = [], holds = [];
    for (let i = 0; i < samples.n && begins.length < MOST; i++) {
      const id = samples.id(i).toLowerCase();
      if (id === text) exact.push(i);
      else if (id.startsWith(text)) begins.push(i);
      else if (holds.length < MOST && id.includes(text)) holds.push(i);
    }
    return [...exact, ...begins, ...holds].slice(0, MOST);
  }
  input.addEventListener("input", function () {
    const text = input.value.trim().toLowerCase(), found = text ? find(text) : [];
    hits.textContent = ""; hits.hidden = !text;
    if (text && !found.length) hits.appendChild(element("li", "quiet", "There is none."));
    for (const i of found) {
      const item = element("li"), one = button(samples.title(i), function () { go(i); });
      one.prepend(markOf(samples.arrays.cluster[i]));
      item.appendChild(one); hits.appendChild(item);
    }
  });
  input.addEventListener("keydown", function (event) {
    const first = hits.querySelector("button");
    if (event.key === "Enter" && first && !hits.hidden) { event.preventDefault(); first.click(); }
    else if (event.key === "ArrowDown" && first) { event.preventDefault(); first.focus(); }
    else if (event.key === "Escape") hits.hidden = true;
  });
  hits.addEventListener("keydown", function (event) {
    const item = document.activeElement.parentElement, next = { ArrowDown: item.nextElementSibling, ArrowUp: item.previousElementSibling }[event.key];
    if (event.key === "Escape") { hits.hidden = true; input.focus(); }
    else if (next) { event.preventDefault(); next.firstElementChild.focus(); }
  });
  document.addEventListener("pointerdown", function (event) { if (!input.parentElement.contains(event.target)) hits.hidden = true; });
}

function links(view) {
  const samples = view.samples, places = new Map();
  for (let i = 0; i < samples.n; i++) places.set(samples.number(i), i);
  for (const one of document.querySelectorAll("button[data-sample]")) {
    const i = places.get(Number(one.dataset.sample));
    if (i === undefined) { one.disabled = true; continue; }
    one.addEventListener("click", function () {
      view.canvas.scrollIntoView({ block: "center" });
      view.canvas.focus({ preventScroll: true });
      view.centre(i, 4); view.open(i);
    });
  }
}

function takeMap(map, view) {
  const samples = view.samples;
  byId("labels").addEventListener("click", function () { save("labels.csv", "text/csv", labelsOf(map, view, null)); });
  byId("map-png").addEventListener("click", function () { view.draw(); view.canvas.toBlob(function (blob) { save("map.png", "image/png", blob); }); });
  byId("map-svg").addEventListener("click", function () {
    const code = view.codes(), categories = view.state.colour.names, palette = categories ? categoryColours() : shadeColours();
    const r = Math.max(1.2, Math.min(4.5, 130 / Math.sqrt(samples.n))), groups = new Map();
    for (let i = 0; i < samples.n; i++) {
      if (!groups.has(code[i])) groups.set(code[i], []);
      groups.get(code[i]).push('<use href="#p" x="' + (800 * samples.xs[i] / r).toFixed(1) + '" y="' + (800 * samples.ys[i] / r).toFixed(1) + '"/>');
    }
    const parts = Array.from(groups).map(function ([c, uses]) {
      const shape = categories ? shapeOf(c) : 0, colour = palette[categories ? colourOf(c) : c].join(",");
      return '<g transform="scale(' + r + ')" fill="rgb(' + colour + ')">' + uses.join("").replaceAll("#p", "#p" + shape) + "</g>";
    });
    const shapes = payload.marks.shapes.map(function (path, k) { return '<path id="p' + k + '" d="' + path + '"/>'; }).join("");
    const text = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 800"><defs>' + shapes + '</defs><rect width="800" height="800" fill="' + css("--card") + '"/>' + parts.join("") + "</svg>";
    save("map.svg", "image/svg+xml", text);
  });
}
