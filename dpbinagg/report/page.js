(function () {
  "use strict";
  var box = document.getElementById("curve");
  var points = JSON.parse(box.dataset.points);
  var chart = box.querySelector("svg");
  var spot = document.getElementById("spot");
  var cross = document.getElementById("cross");
  var slider = document.getElementById("delta");
  var words = document.getElementById("reading");
  var frame = cross.getAttribute("d").match(/^M[\d.]+ ([\d.]+)V[\d.]+H([\d.]+)$/);

  function show(i) {
    var p = points[i];
    spot.setAttribute("cx", p[2]);
    spot.setAttribute("cy", p[3]);
    cross.setAttribute("d", "M" + p[2] + " " + frame[1] + "V" + p[3] + "H" + frame[2]);
    words.textContent = "At delta = " + p[0] + ", epsilon = " + p[1] + ".";
    slider.setAttribute("aria-valuetext", "delta " + p[0] + ", epsilon " + p[1]);
    slider.value = i;
  }

  function nearest(event) {
    var area = chart.getBoundingClientRect();
    var x = (event.clientX - area.left) * chart.viewBox.baseVal.width / area.width;
    var best = 0;
    points.forEach(function (p, i) {
      if (Math.abs(p[2] - x) < Math.abs(points[best][2] - x)) best = i;
    });
    return best;
  }

  var folded = [];
  function unfold(open) {
    folded.forEach(function (part) { part.open = open; });
  }

  window.addEventListener("beforeprint", function () {
    folded = Array.from(document.querySelectorAll("details:not([open])"));
    unfold(true);
  });
  window.addEventListener("afterprint", function () { unfold(false); });

  // A table that is wider than its frame says so, until its end has been seen.
  function tell(box) {
    var room = box.scrollWidth - box.clientWidth;
    if (room <= 1) delete box.dataset.more;
    else if (box.dataset.more !== "read") {
      box.dataset.more = box.scrollLeft >= room - 2 ? "read" : "yes";
    }
  }
  function tellAll() { document.querySelectorAll(".scroll").forEach(tell); }
  document.querySelectorAll(".scroll").forEach(function (box) {
    box.addEventListener("scroll", function () { tell(box); }, { passive: true });
  });
  document.querySelectorAll("details").forEach(function (part) {
    part.addEventListener("toggle", tellAll);
  });
  window.addEventListener("resize", tellAll);
  tellAll();

  document.getElementById("control").hidden = false;
  slider.addEventListener("input", function () { show(Number(slider.value)); });
  chart.addEventListener("pointermove", function (event) {
    if (event.pointerType === "mouse" || event.pressure > 0) show(nearest(event));
  });
  chart.addEventListener("pointerdown", function (event) { show(nearest(event)); });
})();
