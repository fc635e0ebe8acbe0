const root = document.documentElement;
const payload = JSON.parse(byId("payload").textContent);
const redraws = [];

function byId(id) { return document.getElementById(id); }
function css(name) { return getComputedStyle(root).getPropertyValue(name).trim(); }
function redraw() { for (const draw of redraws) draw(); }
function percent(share) { return (100 * share).toFixed(1) + "%"; }

// Elements are made from texts, never from HTML: a name may look like anything.
function element(tag, kind, text) {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  if (text !== undefined) made.textContent = text;
  return made;
}
function button(text, action, kind) {
  const made = element("button", kind, text);
  made.type = "button";
  made.addEventListener("click", action);
  return made;
}

function isDark() {
  const set = root.dataset.theme;
  return set ? set === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}
const themeButton = byId("theme");
function nameTheme() { themeButton.textContent = isDark() ? "Light" : "Dark"; }
themeButton.addEventListener("click", function () {
  root.dataset.theme = isDark() ? "light" : "dark";
  nameTheme(); redraw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () { nameTheme(); redraw(); });
nameTheme();

addEventListener("beforeprint", function () {
  for (const closed of document.querySelectorAll("details:not([open])")) { closed.open = true; closed.dataset.opened = "print"; }
  root.dataset.before = root.dataset.theme || ""; root.dataset.theme = "light"; redraw();
});
addEventListener("afterprint", function () {
  for (const opened of document.querySelectorAll("details[data-opened]")) { opened.open = false; delete opened.dataset.opened; }
  if (root.dataset.before) root.dataset.theme = root.dataset.before; else delete root.dataset.theme;
  redraw();
});
let waiting = 0;
addEventListener("resize", function () { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(redraw); });

for (const one of document.querySelectorAll("button[data-copy]")) {
  one.addEventListener("click", function () {
    const area = element("textarea");
    area.value = byId(one.dataset.copy).textContent;
    document.body.appendChild(area); area.select();
    const done = document.execCommand("copy");
    area.remove(); one.focus();
    one.textContent = done ? "Copied" : "Press Ctrl+C";
  });
}

function decoded(text) {
  const raw = atob(text), out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out;
}
const KINDS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array };
async function unpack(map) {
  const stream = new Blob([decoded(map.packed)]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer(), arrays = {};
  for (const name in map.layout) {
    const [kind, start, length] = map.layout[name];
    arrays[name] = kind === "text" ? JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, start, length)))
      : new KINDS[kind](buffer, start, length);
  }
  return arrays;
}
