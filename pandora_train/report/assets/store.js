// Opens the packed blocks of this file: base64 of deflated JSON, each at most once.
"use strict";

const store = (() => {
  const opened = new Map();

  function bytes(text) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    const binary = atob(text);
    const out = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i++) out[i] = binary.charCodeAt(i);
    return out;
  }

  async function unpack(id) {
    const element = document.getElementById("block-" + id);
    if (!element) throw new Error("this file lacks block " + id);
    const packed = new Blob([bytes(element.textContent.trim())]);
    const stream = packed.stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  function block(id) {
    if (!opened.has(id)) {
      if (opened.size > 60) opened.delete([...opened.keys()].find((k) => k !== "index"));
      opened.set(id, unpack(id));
    }
    return opened.get(id);
  }

  // Position of a prompt part inside its chunk, from the chunk number of every part.
  function places(chunks) {
    const within = new Array(chunks.length);
    let start = 0;
    for (let i = 0; i < chunks.length; i++) {
      if (i > 0 && chunks[i] !== chunks[i - 1]) start = i;
      within[i] = i - start;
    }
    return within;
  }

  let within = null;
  return {
    index: () => block("index"),
    async sample(run, position, index) {
      const chunk = await block(`s${run}-${Math.floor(position / index.chunk)}`);
      return chunk[position % index.chunk];
    },
    async part(number, index) {
      if (number < 0) return "(this part was not stored)";
      within = within || places(index.part_chunk);
      return (await block("p" + index.part_chunk[number]))[within[number]];
    },
  };
})();
