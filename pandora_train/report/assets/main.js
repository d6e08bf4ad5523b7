// Ties list and detail together: tabs, links to one sample, keys, theme.
"use strict";

(async () => {
  const byId = (id) => document.getElementById(id);
  const views = ["overview", "samples"];
  let list = null;
  let detail = null;

  function view(name) {
    for (const v of views) {
      byId(v).hidden = v !== name;
      byId("tab-" + v).setAttribute("aria-selected", String(v === name));
    }
    if (name === "samples" && list) {
      list.draw();
      if (list.chosen < 0 && list.shown.length) choose(list.shown[0]);
    }
  }

  function choose(i, run) {
    if (i < 0) return;
    if (run !== undefined && list.inputs.run) list.inputs.run.value = String(run);
    list.choose(i);
    const suffix = list.index.runs.length > 1 ? `&run=${list.run + 1}` : "";
    history.replaceState(null, "", "#" + encodeURIComponent(list.index.ids[i]) + suffix);
    detail.show(i, list.run);
  }

  function chooseRun(run) {
    if (run >= list.index.runs.length || !list.inputs.run) return;
    const chosen = list.chosen;
    list.inputs.run.value = String(run);
    list.refresh();
    choose(chosen, run);
  }

  // Opens the sample that the address names, if it names one.
  function followLink() {
    const [name, ...rest] = location.hash.slice(1).split("&");
    if (!name) return false;
    let id = name;
    try { id = decodeURIComponent(name); } catch { /* taken as written */ }
    const i = list.index.ids.indexOf(id);
    if (i < 0) return false;
    const run = rest.find((r) => r.startsWith("run="));
    const number = run ? Number(run.slice(4)) - 1 : list.run;
    if (!list.shown.includes(i)) list.clear();
    view("samples");
    choose(i, list.index.runs[number] ? number : list.run);
    return true;
  }

  const keys = {
    j: () => choose(list.next(1)), ArrowDown: () => choose(list.next(1)),
    k: () => choose(list.next(-1)), ArrowUp: () => choose(list.next(-1)),
    ArrowRight: () => detail.step(1), l: () => detail.step(1),
    ArrowLeft: () => detail.step(-1), h: () => detail.step(-1),
    "/": () => list.inputs.search.focus(),
    p: () => { const first = document.querySelector("#prompt details"); if (first) { first.open = !first.open; first.scrollIntoView({ block: "nearest" }); } },
    o: () => view("overview"), c: () => list.clear(), t: () => theme(),
    "?": () => { byId("help").hidden = !byId("help").hidden; },
    Escape: () => { byId("help").hidden = true; },
  };

  function theme() {
    const dark = getComputedStyle(document.documentElement).colorScheme === "dark" ||
      (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
    document.documentElement.dataset.theme = dark ? "light" : "dark";
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const inSamples = !byId("samples").hidden;
    if (/^[1-9]$/.test(event.key) && inSamples) chooseRun(Number(event.key) - 1);
    else if (event.key === "s") view("samples");
    else if (keys[event.key] && (inSamples || "ot?Escape".includes(event.key))) {
      event.preventDefault();
      keys[event.key]();
    }
  }

  const index = await store.index();
  detail = new Detail(index, chooseRun);
  list = new List(index, (i) => choose(i));
  views.forEach((v) => byId("tab-" + v).addEventListener("click", () => view(v)));
  byId("theme").addEventListener("click", theme);
  byId("keys").addEventListener("click", keys["?"]);
  byId("help").addEventListener("click", keys.Escape);
  if (list.inputs.run) list.inputs.run.addEventListener("input", () => list.chosen >= 0 && choose(list.chosen));
  document.querySelectorAll("[data-filter]").forEach((a) => a.addEventListener("click", (event) => {
    event.preventDefault();
    list.set(JSON.parse(a.dataset.filter));
    list.chosen = -1;
    view("samples");
  }));
  document.addEventListener("keydown", onKey);
  addEventListener("hashchange", followLink);
  if (!followLink()) view("overview");
  document.documentElement.dataset.ready = "true";
})();
