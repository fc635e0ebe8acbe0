// Everything that can be taken out of the page: tables, figures, labels.
function save(name, type, content) {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const link = element("a"), url = URL.createObjectURL(blob);
  link.href = url; link.download = name;
  document.body.appendChild(link); link.click(); link.remove();
  setTimeout(function () { URL.revokeObjectURL(url); }, 1000);
}
function csv(rows) {
  return rows.map(function (row) {
    return row.map(function (cell) {
      let text = String(cell);
      // Spreadsheets run what begins like a formula, unless it is marked as text.
      if (/^'*[=+\-@\t\r]/.test(text) && isNaN(Number(text))) text = "'" + text;
      return /[",\r\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
    }).join(",");
  }).join("\n") + "\n";
}
function saveTable(table, name) {
  const rows = Array.from(table.rows).map(function (row) {
    return Array.from(row.cells).map(function (cell) { return cell.textContent.trim(); });
  });
  save(name + ".csv", "text/csv", csv(rows));
}

const DRAWN = ["fill", "stroke", "stroke-width", "stroke-linejoin", "opacity", "font-size", "font-family", "text-anchor"];
function standalone(svg) {
  // A copy that needs neither the style nor the shapes of this page.
  const copy = svg.cloneNode(true), from = svg.querySelectorAll("*"), to = copy.querySelectorAll("*");
  for (let i = 0; i < from.length; i++) {
    const style = getComputedStyle(from[i]);
    for (const name of DRAWN) to[i].setAttribute(name, style.getPropertyValue(name));
    const href = from[i].getAttribute("href");
    if (href) {
      const shape = byId(href.slice(1)).cloneNode(false);
      shape.removeAttribute("id");
      for (const one of to[i].attributes) if (one.name !== "href" && one.name !== "class") shape.setAttribute(one.name, one.value);
      to[i].replaceWith(shape);
    }
  }
  const box = svg.hasAttribute("viewBox") ? svg.viewBox.baseVal : svg.getBoundingClientRect();
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", box.width); copy.setAttribute("height", box.height);
  const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  paper.setAttribute("width", "100%"); paper.setAttribute("height", "100%"); paper.setAttribute("fill", css("--card"));
  copy.prepend(paper);
  return { text: new XMLSerializer().serializeToString(copy), width: box.width, height: box.height };
}
function saveFigure(svg, name, form) {
  const drawn = standalone(svg);
  if (form === "svg") { save(name + ".svg", "image/svg+xml", drawn.text); return; }
  const image = new Image();
  image.onload = function () {
    const canvas = element("canvas");
    canvas.width = 2 * drawn.width; canvas.height = 2 * drawn.height;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob(function (blob) { save(name + ".png", "image/png", blob); });
  };
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(drawn.text);
}
for (const one of document.querySelectorAll("button[data-save]")) {
  one.addEventListener("click", function () {
    const form = one.dataset.save, area = one.parentElement;
    if (form === "csv") saveTable(area.previousElementSibling.querySelector("table"), one.dataset.file);
    else saveFigure(area.parentElement.querySelector("svg"), one.dataset.file, form);
  });
}
const allFeatures = byId("take-features");
if (allFeatures) allFeatures.addEventListener("click", function () {
  const rows = [];
  for (const one of document.querySelectorAll("details.card")) {
    Array.from(one.querySelectorAll("tr")).slice(rows.length ? 1 : 0).forEach(function (row) {
      const cells = Array.from(row.cells).slice(0, 5).map(function (cell) { return cell.textContent.replace(/[▲▼]/, "").trim(); });
      rows.push([rows.length ? one.dataset.cluster : "cluster", ...cells]);
    });
  }
  save("features.csv", "text/csv", csv(rows));
});
