// One sample: question, answer beside gold, error kind, and its turns one by one.
"use strict";

class Detail {
  constructor(index, onRun) {
    this.index = index;
    this.onRun = onRun;
    this.box = document.getElementById("detail");
    this.turn = 0;
    this.wanted = 0;
  }

  async show(i, run) {
    const ticket = ++this.wanted;
    const sample = await store.sample(run, i, this.index);
    if (ticket !== this.wanted) return; // a later choice overtook this one
    Object.assign(this, { i, run, sample, turn: sample ? Math.max(0, sample.steps.length - 1) : 0 });
    this.draw();
    this.box.scrollTop = 0;
  }

  step(by) {
    if (!this.sample) return;
    const to = this.turn + by;
    if (to < 0 || to >= this.sample.steps.length) return;
    this.turn = to;
    this.drawTurn();
  }

  draw() {
    const { sample, index, i } = this;
    const head = [this.crumbs(), el("div", { class: "question" }, index.question[i])];
    if (index.runs.length > 1) head.push(this.runs());
    if (!sample) {
      fill(this.box, head, el("p", { class: "soft" }, "This run has no such sample."));
      return;
    }
    this.turnBox = el("div", { id: "turn" });
    fill(this.box, head, this.chips(), this.error(), this.notes(), this.answers(), this.program(), this.turnBox, this.prompt());
    this.drawTurn();
  }

  crumbs() {
    const { index, i } = this;
    const link = el("a", { href: "#" + encodeURIComponent(index.ids[i]), title: "link to this sample" }, index.ids[i]);
    return el("div", { class: "crumbs row" }, link,
      [index.benchmark[i], index.group[i]].map((text) => el("span", {}, "· " + text)));
  }

  runs() {
    return el("div", { class: "runs", role: "tablist" }, this.index.runs.map((r, n) =>
      el("button", { role: "tab", "aria-selected": String(n === this.run), title: `key ${n + 1}`,
        on: { click: () => this.onRun(n) } },
      el("span", { class: "dot " + verdict(r.score[this.i]) }), r.name)));
  }

  chips() {
    const { sample } = this;
    const run = this.index.runs[this.run];
    const scores = Object.entries(sample.scores).map(([name, value]) =>
      el("span", { class: "chip " + (value >= 1 ? "right" : "wrong") }, `${name} ${Number(value.toFixed(3))}`));
    const tags = Object.entries(sample.tags).map(([name, value]) => el("span", { class: "chip" }, `${name}: ${value}`));
    const cost = [count(sample.usage.calls, "call"), `${sample.usage.prompt_tokens.toLocaleString("en")} + ` +
      `${sample.usage.completion_tokens.toLocaleString("en")} tokens`, `${sample.seconds} s`,
    sample.usage.usd ? `$${sample.usage.usd.toFixed(4)}` : ""].filter(Boolean).join(" · ");
    return el("div", { class: "row chips" }, scores,
      el("span", { class: "chip " + (run.status[this.i] === "ok" ? "" : "mark") }, "ended: " + run.status[this.i]),
      tags, el("span", { class: "soft small" }, cost));
  }

  error() {
    const { error } = this.sample;
    if (!error) return null;
    return el("div", { class: "card error" }, el("h3", {}, `${KINDS[error.kind]} — ${error.rule}`),
      error.evidence.map((e) => el("div", { class: "prose" }, e)));
  }

  notes() {
    const { notes } = this.sample;
    if (!notes.length) return null;
    return el("div", { class: "card", id: "notes" }, el("h3", {}, "What reading changed"),
      notes.map((n) => el("div", { class: "prose" }, n)));
  }

  answers() {
    const { answer, gold, parses } = this.sample;
    const other = parses.length ? el("p", { class: "soft small" },
      `${parses.length} parses count; the best match scores`) : null;
    const differ = answer && gold;
    return el("div", { class: "pair" },
      el("div", { class: "card", id: "answer" }, el("h3", {}, "Answer"), cells(answer, differ ? gold : null, "no answer")),
      el("div", { class: "card", id: "gold" }, el("h3", {}, "Gold"), cells(gold, differ ? answer : null, "no gold answer"), other));
  }

  program() {
    const { program, language } = this.sample;
    if (!program) return null;
    const names = { sql: "SQL", sexpr: "s-expression", sparql: "SPARQL", path: "relation path", steps: "steps" };
    return el("div", { class: "card" }, el("h3", {}, "Gold program · " + (names[language] || language)), code(program, "sql", 0, true));
  }

  drawTurn() {
    const { steps } = this.sample;
    if (!steps.length) {
      const { ending, reason } = this.sample;
      const why = ending === "answered" ? "the prompt did not fit" : `${ending}: ${reason}`;
      fill(this.turnBox, el("p", { class: "soft" }, `No turn was taken: ${why}.`));
      return;
    }
    const buttons = steps.map((s, n) => [n ? el("span", { class: "link" }) : null,
      el("button", { role: "tab", "aria-selected": String(n === this.turn), on: { click: () => { this.turn = n; this.drawTurn(); } } },
        el("span", { class: "dot " + (s.execution && s.execution.outcome === "result" ? "right" : "wrong") }), `Turn ${n + 1}`)]);
    fill(this.turnBox, el("div", { class: "turns", role: "tablist" }, ...buttons), this.turnCards(steps[this.turn]));
  }

  turnCards(s) {
    const cards = [];
    const card = (title, ...content) => cards.push(el("div", { class: "card" }, el("h3", {}, title), ...content));
    if (s.reasoning) card("Reasoning", el("div", { class: "prose" }, s.reasoning));
    if (s.code) card("Code", code(s.code, "python", s.execution && s.execution.error ? s.execution.error.line : 0));
    if (s.refusal) cards.push(el("div", { class: "card error" }, el("h3", {}, "Refused"), el("div", { class: "prose" }, s.refusal)));
    if (s.problem) cards.push(el("div", { class: "card error" }, el("h3", {}, "The reply could not be run"), el("div", { class: "prose" }, s.problem)));
    if (s.execution) cards.push(this.execution(s.execution));
    if (s.feedback) card("Fed back to the model", el("div", { class: "prose" }, s.feedback));
    cards.push(el("details", { class: "part" }, el("summary", {}, "reply as written"), el("pre", { class: "plain" }, s.reply)));
    return cards;
  }

  execution(x) {
    const time = el("span", { class: "soft small" }, `${x.seconds} s`);
    if (x.error) {
      return el("div", { class: "card error" }, el("h3", {}, "Execution failed", time),
        el("div", { class: "prose" }, el("code", {}, `${x.error.type}: ${x.error.message}`)),
        x.error.hint ? el("p", { class: "soft" }, "Hint: " + x.error.hint) : null);
    }
    if (x.outcome !== "result") {
      return el("div", { class: "card error" }, el("h3", {}, "Execution ended by " + x.outcome.replace("_", " "), time));
    }
    const form = x.shape && x.shape !== "rows" ? el("span", { class: "chip" }, "returned as " + x.shape) : null;
    const types = x.types.length ? el("p", { class: "soft small" }, "types: " + x.types.join(", ")) : null;
    return el("div", { class: "card" }, el("h3", {}, "Execution", form, time), cells(x.table, null, "no rows"), types,
      x.hint ? el("p", { class: "soft" }, "Hint: " + x.hint) : null);
  }

  prompt() {
    const { sample, index } = this;
    if (!sample.prompt.length) return null;
    let shown = 0;
    const parts = sample.prompt.map(([kind, role, number]) => {
      const id = kind === "demonstration" ? sample.demonstrations[shown++] : "";
      const pre = el("pre", { class: "plain" }, "…");
      const open = async (event) => {
        if (event.target.open) pre.textContent = await store.part(number, index);
      };
      return el("details", { class: "part", "data-kind": kind, on: { toggle: open } },
        el("summary", {}, `${kind}${id ? " · " + id : ""} `, el("span", { class: "small" }, `(${role})`)), pre);
    });
    const cut = sample.cut ? ` · ${count(sample.cut, "demonstration")} left out by the token budget` : "";
    return el("div", { class: "card", id: "prompt" }, el("h3", {}, `Prompt · ${count(shown, "demonstration")}${cut}`), parts);
  }
}
