// Elements, coloured code and tables. Text from a run enters the page as text nodes only.
"use strict";

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, f] of Object.entries(value)) node.addEventListener(event, f);
    else node.setAttribute(name, value === true ? "" : value);
  }
  return fill(node, ...children);
}

// Replaces what is in `node`; nested lists are laid flat, nothing is written for null.
function fill(node, ...children) {
  node.replaceChildren(...children.flat(3).filter((c) => c !== null && c !== undefined && c !== ""));
  return node;
}

const WORDS = {
  python: new Set(("and as assert break class continue def del elif else except finally for from if import in is " +
    "lambda not or pass raise return try while with yield None True False").split(" ")),
  sql: new Set(("select from where join on as group by order having limit distinct union intersect except and or " +
    "not in like between is null count sum avg min max asc desc left inner outer case when then else end exists " +
    "all prefix filter optional argmax argmin le lt ge gt").split(" ")),
};
const TOKEN = {
  python: /(#[^\n]*)|([rfbRFB]{0,2}(?:'''[\s\S]*?'''|"""[\s\S]*?"""|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"))|(\b\d[\w.]*)|([^\W\d]\w*)/gu,
  sql: /(--[^\n]*)|('(?:''|[^'])*'|"[^"]*")|(\b\d[\w.]*)|([^\W\d]\w*)/gu,
};

// Tokens of a line-oriented language: [class, text] pairs that join to exactly the source.
function tokens(source, language) {
  const out = [];
  let at = 0;
  for (const m of source.matchAll(TOKEN[language])) {
    if (m.index > at) out.push(["", source.slice(at, m.index)]);
    const word = language === "sql" ? m[0].toLowerCase() : m[0];
    const call = source[m.index + m[0].length] === "(";
    out.push([m[1] ? "t-c" : m[2] ? "t-s" : m[3] ? "t-n" : WORDS[language].has(word) ? "t-k" : call ? "t-f" : "", m[0]]);
    at = m.index + m[0].length;
  }
  if (at < source.length) out.push(["", source.slice(at)]);
  return out;
}

function code(source, language, badLine, wrap) {
  const lines = [el("span", { class: "l" })];
  for (const [kind, text] of tokens(source, language)) {
    text.split("\n").forEach((piece, i) => {
      if (i > 0) lines.push(el("span", { class: "l" }));
      if (piece) lines[lines.length - 1].append(kind ? el("span", { class: kind }, piece) : piece);
    });
  }
  if (badLine && lines[badLine - 1]) lines[badLine - 1].classList.add("bad");
  lines.forEach((line) => line.childNodes.length || line.append("\u200b"));
  return el("pre", { class: "source" + (wrap ? " wrap" : "") }, lines);
}

// A table of rows. `other` tints each row by whether the other table still has an equal one to spare.
function cells(table, other, missing) {
  if (!table) return el("p", { class: "null" }, missing);
  if (!table.n) return el("p", { class: "null" }, "no rows");
  const spare = new Map();
  for (const row of other ? other.rows : []) {
    const key = JSON.stringify(row);
    spare.set(key, (spare.get(key) || 0) + 1);
  }
  const body = el("tbody");
  for (const row of table.rows) {
    const key = JSON.stringify(row);
    const match = (spare.get(key) || 0) > 0;
    if (match) spare.set(key, spare.get(key) - 1);
    const tint = other ? (match ? "match" : "miss") : null;
    body.append(el("tr", { class: tint }, row.length
      ? row.map((c) => (c === null ? el("td", { class: "null" }, "null") : el("td", {}, c)))
      : [el("td", { class: "null" }, "empty row")]));
  }
  const more = table.n > table.rows.length
    ? el("p", { class: "soft small" }, `first ${table.rows.length} of ${table.n.toLocaleString("en")} rows`) : null;
  return el("div", { class: "cells" }, el("table", {}, body), more);
}

function count(n, one, many) {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many || one + "s"}`;
}
