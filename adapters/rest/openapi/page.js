"use strict";
// Shows openapi.json, which lies beside this page, and tries its operations. Whatever comes from the document or from a call is
// set as text, never as markup: names and descriptions are hostile.
(() => {
  const here = new URL(".", location.href);
  const own = /\/servers\/([^/]+)\/$/.exec(here.pathname); // the server of this page, if the path names one
  const root = own ? new URL("../../", here) : here;
  const STORED = "dragoman-key"; // of this tab, until it is closed
  const app = document.getElementById("app");
  const PREFIX = "#/components/";

  function el(tag, props, ...kids) {
    const e = document.createElement(tag);
    for (const [k, v] of Object.entries(props || {})) e[k] = v;
    for (const kid of kids) if (kid !== null && kid !== undefined) e.append(kid); // append makes text of strings
    return e;
  }
  const json = (v) => JSON.stringify(v, null, 2);

  // resolve follows a reference into the document's components.
  function resolve(doc, v) {
    for (let n = 0; v && typeof v.$ref === "string" && n < 20; n++) {
      const ref = v.$ref;
      if (!ref.startsWith(PREFIX)) return {};
      v = ref.slice(2).split("/").reduce((o, k) => (o && Object.hasOwn(o, k) ? o[k] : undefined), doc);
    }
    return v || {};
  }

  // sample makes a value to begin with: required members only, so that it is short.
  function sample(doc, schema, depth) {
    const s = resolve(doc, schema);
    if (s.default !== undefined) return s.default;
    if (s.const !== undefined) return s.const;
    if (Array.isArray(s.enum)) return s.enum[0];
    if (Array.isArray(s.examples)) return s.examples[0];
    if (depth > 6) return null;
    const type = Array.isArray(s.type) ? s.type[0] : s.type;
    if (type === "string") return "";
    if (type === "integer" || type === "number") return typeof s.minimum === "number" ? s.minimum : 0;
    if (type === "boolean") return false;
    if (type === "array") return [];
    if (type === "object" || s.properties) {
      const out = Object.create(null);
      for (const name of Array.isArray(s.required) ? s.required : []) out[name] = sample(doc, (s.properties || {})[name], depth + 1);
      return out;
    }
    const first = (s.anyOf || s.oneOf || s.allOf || [])[0];
    return first ? sample(doc, first, depth + 1) : null;
  }

  // schemaView is a schema as text, with links to the components that it refers to.
  function schemaView(doc, schema) {
    const names = new Set();
    const text = JSON.stringify(schema, (k, v) => {
      if (k === "$ref" && typeof v === "string" && v.startsWith(PREFIX + "schemas/")) names.add(v.slice(PREFIX.length + 8));
      return v;
    }, 2);
    const links = [...names].map((name) => el("a", { href: "#schema-" + encodeURIComponent(name), textContent: name }));
    const line = el("div", {});
    links.forEach((a, i) => line.append(i ? ", " : "refers to ", a));
    return el("div", {}, el("pre", { textContent: text }), links.length ? line : null);
  }

  // authorized adds the key that was given. It goes to this origin only.
  function authorized(headers) {
    const key = sessionStorage.getItem(STORED);
    return key ? { ...headers, Authorization: "Bearer " + key } : headers;
  }

  // keyField is the field for an API key or a token.
  function keyField(changed) {
    const input = el("input", { type: "password", value: sessionStorage.getItem(STORED) || "", autocomplete: "off", placeholder: "none" });
    input.addEventListener("change", () => { sessionStorage.setItem(STORED, input.value.trim()); changed(); });
    return el("label", { className: "field" }, "API key or token ", input);
  }

  // chooser is the list of servers.
  function chooser(names) {
    const pick = el("select", {}, ...(own ? [] : [el("option", { value: "", textContent: "choose …" })]),
      ...names.map((name) => el("option", { value: name, textContent: name, selected: own !== null && decodeURIComponent(own[1]) === name })));
    pick.addEventListener("change", () => { if (pick.value) location.assign(new URL("servers/" + encodeURIComponent(pick.value) + "/docs", root)); });
    return el("label", { className: "field" }, "Server ", pick);
  }

  // quoted is a word of a POSIX shell.
  const quoted = (text) => "'" + text.replaceAll("'", "'\\''") + "'";

  // commandLine is a request for curl. The key stays out of it.
  function commandLine(method, url, headers, body) {
    const words = ["curl", "-X", method, quoted(url)];
    for (const [name, value] of Object.entries(headers)) words.push("-H", quoted(name + ": " + value));
    if (sessionStorage.getItem(STORED)) words.push("-H", '"Authorization: Bearer $KEY"');
    if (headers.Accept === "text/event-stream") words.push("-N");
    if (body !== undefined) words.push("-d", quoted(body));
    return words.join(" ");
  }

  function row(...cells) { return el("tr", {}, ...cells.map((c) => el("td", {}, c))); }

  function bodyOf(doc, op) {
    const content = op.requestBody && resolve(doc, op.requestBody).content;
    return content && content["application/json"];
  }

  function example(doc, body) {
    const given = body.examples && Object.values(body.examples)[0];
    return given ? resolve(doc, given).value : sample(doc, body.schema, 0);
  }

  // shown is the part of the tools that the page shows: those that match a text, from an offset on.
  let shown = { offset: 0, match: "" };

  // partOf are the controls of a document that describes a part of the tools: a filter, and what is before and after the part.
  function partOf(doc) {
    const part = (doc.info || {})["x-tools"];
    if (!part) return [];
    const go = (offset, match) => { shown = { offset, match }; load(); };
    const filter = el("input", { type: "search", value: shown.match, autocomplete: "off", placeholder: "name or description" });
    filter.addEventListener("change", () => go(0, filter.value.trim()));
    const button = (text, disabled, offset) => {
      const b = el("button", { type: "button", textContent: text, disabled });
      b.addEventListener("click", () => go(offset, shown.match));
      return b;
    };
    const end = part.offset + part.count;
    return [el("label", { className: "field" }, "Find tools ", filter), el("span", { className: "field" },
      button("First tools", part.offset === 0, 0), button("Next tools", !(end < part.total), end),
      (part.count ? part.offset + 1 + " to " + end : "none") + " of " + part.total)];
  }

  // tryIt is the form that sends a request. What the path and the query leave open is a field of it.
  function tryIt(doc, method, path, op, params) {
    const open = params.filter((p) => p.in === "path" || p.in === "query").map((p) => ({ name: p.name, in: p.in,
      input: el("input", { type: "text", value: p.required ? String(example(doc, p) ?? "") : "", autocomplete: "off" }) }));
    const target = () => {
      const query = open.filter((p) => p.in === "query" && p.input.value).map((p) => p.name + "=" + encodeURIComponent(p.input.value));
      return open.reduce((at, p) => at.replace("{" + p.name + "}", () => encodeURIComponent(p.input.value)), path) + (query.length ? "?" + query.join("&") : "");
    };
    const body = bodyOf(doc, op);
    const area = body ? el("textarea", { value: json(example(doc, body)), spellcheck: false, ariaLabel: "Body" }) : null;
    const stream = el("input", { type: "checkbox" });
    const key = el("input", { type: "text", autocomplete: "off" });
    const status = el("div", {});
    const out = el("pre", { hidden: true });
    let running = null;
    const send = el("button", { type: "button", textContent: "Send" });
    const stop = el("button", { type: "button", textContent: "Cancel", disabled: true });
    const copy = el("button", { type: "button", textContent: "Copy as curl" });
    const fields = () => {
      const headers = { Accept: stream.checked ? "text/event-stream" : "application/json" };
      if (area) headers["Content-Type"] = "application/json";
      if (key.value) headers["Idempotency-Key"] = key.value;
      return headers;
    };
    stop.addEventListener("click", () => running && running.abort());
    copy.addEventListener("click", async () => {
      const line = commandLine(method, String(new URL("." + target(), here)), fields(), area ? area.value : undefined);
      try { await navigator.clipboard.writeText(line); status.textContent = "copied"; } catch { status.textContent = ""; }
      status.className = ""; out.hidden = false; out.textContent = line; // to be copied by hand where there is no clipboard
    });
    send.addEventListener("click", async () => {
      const headers = authorized(fields());
      running = new AbortController();
      send.disabled = true; stop.disabled = false; out.hidden = false; out.textContent = ""; status.textContent = "…"; status.className = "";
      try {
        const answer = await fetch(new URL("." + target(), here), { method, headers, body: area ? area.value : undefined, signal: running.signal });
        status.textContent = answer.status + " " + (answer.headers.get("Content-Type") || "");
        status.className = answer.ok ? "" : "bad";
        await show(answer, out);
      } catch (e) {
        status.textContent = String(e); status.className = "bad";
      }
      send.disabled = false; stop.disabled = true;
    });
    return el("div", { className: "try" }, ...open.map((p) => el("label", {}, p.name + " ", p.input)), area,
      area ? el("label", {}, stream, " show progress as it comes (text/event-stream)") : null,
      area ? el("label", {}, "Idempotency-Key ", key) : null, send, stop, copy, status, out);
  }

  async function show(answer, out) {
    const reader = answer.body.getReader();
    const decoder = new TextDecoder();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      text += decoder.decode(value, { stream: true });
      out.textContent = text;
    }
    if (/\d{16}/.test(text)) return; // large numbers would be changed
    try { out.textContent = json(JSON.parse(text)); } catch { /* it is no JSON: a stream */ }
  }

  // answers is a table of the answers. Those of one schema share a row.
  function answers(doc, op) {
    const rows = new Map();
    for (const [code, r] of Object.entries(op.responses || {})) {
      const full = resolve(doc, r), content = full.content && full.content["application/json"];
      const same = content ? JSON.stringify(content.schema) : code;
      if (!rows.has(same)) rows.set(same, { schema: content && content.schema, lines: [] });
      rows.get(same).lines.push(el("div", {}, el("code", { textContent: code }), " " + (full.description || "")));
    }
    return el("table", {}, ...[...rows.values()].map((r) => row(el("div", {}, ...r.lines), r.schema ? schemaView(doc, r.schema) : "")));
  }

  function operation(doc, path, method, op) {
    const box = el("details", {}, el("summary", {}, el("span", { className: "method " + (method === "get" ? "get" : ""), textContent: method.toUpperCase() }),
      el("code", { textContent: path }), el("span", { className: "what", textContent: op.summary || "" })));
    box.addEventListener("toggle", () => {
      if (!box.open || box.childElementCount > 1) return; // filled when it is first opened
      box.append(el("p", { className: "text", textContent: op.description || "" }));
      const params = (op.parameters || []).map((p) => resolve(doc, p));
      box.append(tryIt(doc, method.toUpperCase(), path, op, params));
      if (params.length) box.append(el("h3", { textContent: "Parameters" }), el("table", {}, ...params.map((p) =>
        row(el("code", { textContent: p.name }), p.in, p.description || ""))));
      const body = bodyOf(doc, op);
      if (body) box.append(el("h3", { textContent: "Body" }), schemaView(doc, body.schema.$ref ? resolve(doc, body.schema) : body.schema));
      box.append(el("h3", { textContent: "Answers" }), answers(doc, op));
    });
    return box;
  }

  // METHODS are shown: what answers GET answers HEAD as well.
  const METHODS = ["get", "post", "put", "patch", "delete"];

  function render(doc) {
    const info = doc.info || {};
    document.title = String(info.title || "API");
    app.replaceChildren(controls, el("h1", { textContent: info.title || "" }), el("div", { textContent: "version " + info.version + ", OpenAPI " + doc.openapi }),
      el("p", { className: "text", textContent: info.description || "" }), el("a", { href: "openapi.json", textContent: "openapi.json" }));
    const groups = new Map();
    const show = (tag, box) => (groups.has(tag) ? groups.get(tag).push(box) : groups.set(tag, [box]));
    for (const [path, item] of Object.entries(doc.paths || {})) {
      const methods = METHODS.filter((method) => Object.hasOwn(item, method));
      for (const method of methods) show((item[method].tags || ["Other"])[0], operation(doc, path, method, item[method]));
      if (!methods.length) show("Other", el("details", {}, el("summary", {}, el("code", { textContent: path }),
        el("span", { className: "what", textContent: item.summary || "" })), el("p", { className: "text", textContent: item.description || "" })));
    }
    for (const [tag, boxes] of groups) app.append(el("h2", { textContent: tag }), ...boxes);
    app.append(el("h2", { textContent: "Schemas" }));
    for (const [name, schema] of Object.entries((doc.components || {}).schemas || {})) {
      app.append(el("details", { id: "schema-" + encodeURIComponent(name) }, el("summary", {}, el("code", { textContent: name })), schemaView(doc, schema)));
    }
    open();
  }

  // open opens the schema that the address names.
  function open() {
    const target = location.hash.startsWith("#schema-") ? document.getElementById(location.hash.slice(1)) : null;
    if (target) { target.open = true; target.scrollIntoView(); }
  }
  addEventListener("hashchange", open);

  // controls stand above everything: the server, and the key.
  const controls = el("div", { className: "controls" });

  async function read(url) {
    const answer = await fetch(url, { headers: authorized({ Accept: "application/json" }) });
    return { status: answer.status, ok: answer.ok, doc: await answer.json().catch(() => ({})) };
  }

  // serversOf are the names in the error of a path that names none of several servers.
  function serversOf(got) {
    const data = ((got.doc.meta || {}).cause || {}).data || {};
    return !got.ok && Array.isArray(data.servers) ? data.servers.filter((name) => typeof name === "string") : [];
  }

  let loads = 0;

  async function load() {
    const mine = ++loads;
    try {
      const at = new URL("openapi.json", here);
      if (shown.offset) at.searchParams.set("offset", shown.offset);
      if (shown.match) at.searchParams.set("match", shown.match);
      const got = await read(at);
      const names = own && got.status !== 401 ? serversOf(await read(new URL("openapi.json", root))) : serversOf(got);
      if (mine !== loads) return; // a later one shows its answer
      controls.replaceChildren(...(names.length ? [chooser(names)] : []), keyField(load), ...partOf(got.doc));
      if (got.ok) return render(got.doc);
      if (names.length && !own) return app.replaceChildren(controls, el("p", { textContent: "Several servers are behind this address. Choose one to see its tools." }));
      if (got.status === 401) return app.replaceChildren(controls, el("p", { textContent: "This needs an API key or a token: " + (got.doc.error || "none was given") }));
      throw new Error(got.doc.error || got.status);
    } catch (e) {
      app.replaceChildren(controls, el("p", { className: "bad", textContent: "openapi.json cannot be read: " + e }));
    }
  }
  load();
})();
