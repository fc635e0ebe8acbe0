// A tree of clusterings: the features of a cluster, and the labels of a level.
function treePart(tree) {
  const starts = tree.numbers.map(function (k, i) { return tree.sizes.slice(0, i).reduce(function (sum, row) { return sum + row.length; }, 0); });
  const nodes = Array.from(document.querySelectorAll("svg.tree g[data-level]"));
  let kept = null;
  function listed(edges, end, level) {
    return edges.sort(function (a, b) { return b[3] - a[3]; }).slice(0, 6).map(function (edge) {
      return edge[end] + " (" + edge[3].toLocaleString("en") + ")";
    }).join(", ");
  }
  function show(node) {
    const level = Number(node.dataset.level), cluster = Number(node.dataset.cluster), box = byId("node");
    const k = tree.numbers[level], above = tree.numbers[level - 1];
    box.replaceChildren(element("strong", "", "cluster " + cluster + " of " + k));
    box.append(element("p", "", tree.sizes[level][cluster].toLocaleString("en") + " samples, stability " + tree.stability[starts[level] + cluster].toFixed(2)));
    const from = tree.edges.filter(function (e) { return e[0] === above && e[2] === cluster; });
    const into = tree.edges.filter(function (e) { return e[0] === k && e[1] === cluster; });
    if (from.length) box.append(element("p", "", "from clusters " + listed(from, 1)));
    if (into.length && level + 1 < tree.numbers.length) box.append(element("p", "", "to clusters " + listed(into, 2)));
    for (const [view, name, deviation] of tree.features[level][cluster]) {
      const line = element("div", "line");
      line.append(element("span", "", name + (tree.views > 1 ? " (" + view + ")" : "")), element("span", deviation > 0 ? "up" : "down", (deviation > 0 ? "+" : "−") + Math.abs(deviation).toFixed(2) + " SD"));
      box.append(line);
    }
  }
  for (const node of nodes) {
    node.addEventListener("mouseenter", function () { if (!kept) show(node); });
    node.addEventListener("focus", function () { if (!kept) show(node); });
    function keep() { kept = kept === node ? null : node; for (const one of nodes) one.classList.toggle("kept", one === kept); show(node); }
    node.addEventListener("click", keep);
    node.addEventListener("keydown", function (event) { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); keep(); } });
  }
  byId("level-labels").addEventListener("click", async function () {
    const level = Number(byId("level").value), arrays = await unpack(tree);
    const rows = [["sample", "cluster"]];
    arrays["level" + level].forEach(function (code, i) { rows.push([arrays.ids ? arrays.ids[i] : i, code ? code - 1 : ""]); });
    save("labels-" + tree.numbers[level] + ".csv", "text/csv", csv(rows));
  });
}
if (payload.tree) treePart(payload.tree);
