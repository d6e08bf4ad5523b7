// The list of samples: filters, search, and only as many rows in the page as are in sight.
"use strict";

const ROW = 62;

class List {
  constructor(index, onChoose) {
    this.index = index;
    this.onChoose = onChoose;
    this.shown = [];
    this.chosen = -1;
    this.deep = null; // samples whose reasoning, code, answer or gold hold the words, once Enter asked for them
    this.haystack = index.ids.map((id, i) => `${id} ${index.question[i]} ${index.group[i]} ${index.tags[i]}`.toLowerCase());
    this.box = document.getElementById("list");
    this.spacer = document.getElementById("spacer");
    this.inputs = Object.fromEntries(
      [...document.querySelectorAll("#filters [name]")].map((e) => [e.name, e]));
    this.fill();
    for (const input of Object.values(this.inputs)) {
      input.addEventListener("input", () => { this.deep = null; this.refresh(); });
    }
    this.inputs.search.addEventListener("keydown", (event) => event.key === "Enter" && this.searchDeep());
    document.getElementById("clear").addEventListener("click", () => this.clear());
    this.box.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(this.box);
    this.refresh();
  }

  fill() {
    const runs = this.index.runs;
    const values = (lists) => [...new Set(lists.flat())].filter(Boolean).sort();
    const add = (name, options) => options.forEach(([value, text]) =>
      this.inputs[name].append(el("option", { value }, text)));
    add("benchmark", values([this.index.benchmark]).map((v) => [v, v]));
    add("status", values(runs.map((r) => r.status)).map((v) => [v, v]));
    add("kind", values(runs.map((r) => r.kind)).map((v) => [v, KINDS[v] || v]));
    const names = runs.map((r, i) => [String(i), r.name]);
    if (this.inputs.run) add("run", names);
    if (this.inputs.from) add("from", names.map(([value, name]) => [value, "against " + name]));
    if (this.inputs.run) this.inputs.run.value = String(runs.length - 1);
  }

  get run() { return this.inputs.run ? Number(this.inputs.run.value) : 0; }
  get from() { return this.inputs.from ? Number(this.inputs.from.value) : 0; }

  set(values) {
    for (const [name, input] of Object.entries(this.inputs)) {
      if (name in values) input.value = values[name];
      else if (name !== "run" && name !== "from") input.value = "";
    }
    this.refresh();
  }

  clear() { this.deep = null; this.set({}); }

  refresh() {
    const { inputs, index } = this;
    const run = index.runs[this.run];
    const words = inputs.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const flip = inputs.flip ? inputs.flip.value : "";
    const keep = (i) =>
      (!inputs.benchmark.value || index.benchmark[i] === inputs.benchmark.value) &&
      (!inputs.status.value || run.status[i] === inputs.status.value) &&
      (!inputs.kind.value || run.kind[i] === inputs.kind.value) &&
      (!inputs.score.value || verdict(run.score[i]) === inputs.score.value) &&
      (!flip || this.flip(i) === flip) &&
      (words.every((w) => this.haystack[i].includes(w)) || (this.deep !== null && this.deep.has(i)));
    this.shown = index.ids.map((_, i) => i).filter(keep);
    document.getElementById("count").textContent =
      this.shown.length === index.ids.length ? count(index.ids.length, "sample")
        : `${this.shown.length.toLocaleString("en")} of ${count(index.ids.length, "sample")}`;
    this.spacer.style.height = this.shown.length * ROW + "px";
    this.box.scrollTop = 0;
    this.draw();
  }

  // Looks through all that the chosen run wrote; replies, code, executions, answers and gold, not prompts.
  async searchDeep() {
    const words = this.inputs.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const { index, run } = this;
    const found = new Set();
    for (let i = 0; words.length && i < index.ids.length; i++) {
      if (i % index.chunk === 0) document.getElementById("count").textContent = `searching ${i} of ${index.ids.length} …`;
      const sample = await store.sample(run, i, index);
      if (!sample) continue;
      const text = [this.haystack[i], sample.program, ...strings(sample.steps), ...strings([sample.answer, sample.gold])];
      if (words.every((w) => text.some((t) => t.toLowerCase().includes(w)))) found.add(i);
    }
    this.deep = found;
    this.refresh();
  }

  flip(i) {
    const [a, b] = [this.index.runs[this.from].score[i], this.index.runs[this.run].score[i]];
    if (a === null || b === null) return "";
    if (a < 1 && b >= 1) return "gained";
    if (a >= 1 && b < 1) return "lost";
    return a >= 1 ? "right" : "wrong";
  }

  draw() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / ROW) - 4);
    const last = Math.min(this.shown.length, first + Math.ceil(this.box.clientHeight / ROW) + 9);
    const rows = [];
    for (let at = first; at < last; at++) rows.push(this.item(at));
    if (!this.shown.length) rows.push(el("div", { class: "empty" }, "No sample passes these filters."));
    this.spacer.replaceChildren(...rows);
  }

  item(at) {
    const i = this.shown[at];
    const { index } = this;
    const run = index.runs[this.run];
    const ending = run.kind[i] ? KINDS[run.kind[i]] : run.status[i] === "ok" ? "" : run.status[i];
    const about = [index.benchmark[i], index.group[i], ending, run.turns[i] > 1 ? count(run.turns[i], "turn") : ""];
    const row = el("div", {
      class: "item", role: "option", "data-id": index.ids[i], "aria-selected": String(i === this.chosen),
      on: { click: () => this.onChoose(i) },
    }, el("div", { class: "ask" }, index.question[i]),
      el("div", { class: "about" }, about.filter(Boolean).join(" · ")),
      el("div", { class: "dots" }, index.runs.map((r) =>
        el("span", { class: "dot " + verdict(r.score[i]), title: `${r.name}: ${scoreText(r.score[i])}` }))));
    row.style.top = at * ROW + "px";
    return row;
  }

  // Marks sample i and brings its row into sight.
  choose(i) {
    this.chosen = i;
    const at = this.shown.indexOf(i);
    if (at >= 0) {
      const top = at * ROW;
      if (top < this.box.scrollTop) this.box.scrollTop = top;
      if (top + ROW > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = top + ROW - this.box.clientHeight;
    }
    this.draw();
  }

  // The sample `by` rows further down, or -1 at the ends.
  next(by) {
    const at = this.shown.indexOf(this.chosen);
    const to = at < 0 ? 0 : at + by;
    return to >= 0 && to < this.shown.length ? this.shown[to] : -1;
  }
}

// Every string inside a value.
function strings(value) {
  if (typeof value === "string") return [value];
  return value && typeof value === "object" ? Object.values(value).flatMap(strings) : [];
}

function verdict(score) {
  return score === null || score === undefined ? "" : score >= 1 ? "right" : score > 0 ? "part" : "wrong";
}

function scoreText(score) {
  return score === null || score === undefined ? "not scored" : score >= 1 ? "right" : score > 0 ? `partly right (${score.toFixed(2)})` : "wrong";
}
