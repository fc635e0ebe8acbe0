async function start(map) {
  const samples = Samples(map, await unpack(map)), view = MapView(map, samples);
  controls(view); legend(map, view); card(map, view); markedPart(map, view); search(view); links(view); takeMap(map, view);
  redraw();
  root.dataset.ready = "yes";
}
if (payload.map) {
  start(payload.map).catch(function (error) {
    byId("map").replaceWith(element("p", "warn", "The map cannot be drawn here (" + error.message + "); a browser from 2023 on can."));
  });
} else redraw();
