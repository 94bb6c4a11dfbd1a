// page.mjs DIR: runs page.js of DIR with its openapi.json in a document tree that knows elements and text only, opens everything,
// sends every form, and prints what is shown. Fails where a property is set that could make markup or code of a string.
import { readFileSync } from "node:fs";
import vm from "node:vm";
const dir = process.argv[2], origin = "http://127.0.0.1:1";
const plain = new Set(["textContent", "className", "value", "spellcheck", "ariaLabel", "type", "autocomplete", "hidden", "disabled", "checked", "open", "id", "href", "placeholder", "selected"]);
const all = [];
class Node {
  constructor(tag) { Object.assign(this, { tag, kids: [], on: {}, props: {} }); all.push(this); return new Proxy(this, Node.guard); }
  static guard = {
    set(n, k, v) {
      if (!plain.has(k)) throw new Error(`<${n.tag}> ${String(k)} is set`);
      if (k === "href" && !/^(openapi\.json|#schema-[\w%.~-]*)$/.test(v)) throw new Error(`a link to ${v}`);
      n.props[k] = v;
      return true;
    },
    get: (n, k) => (k in n ? n[k] : n.props[k]),
  };
  append(...kids) { for (const k of kids) this.kids.push(typeof k === "object" ? k : String(k)); }
  replaceChildren(...kids) { this.kids.length = 0; this.append(...kids); }
  addEventListener(name, f) { this.on[name] = f; }
  get childElementCount() { return this.kids.filter((k) => typeof k === "object").length; }
  scrollIntoView() {}
  get text() { return (this.props.textContent ?? "") + (this.props.value ?? "") + this.kids.map((k) => (typeof k === "object" ? k.text : k)).join(" "); }
}
const app = new Node("main"), sent = [], copied = [], went = [], parts = [];
const scene = process.argv[3] || "/docs"; // where the page is
const servers = ["one", "t\"w/o <b>"], key = "key of the test";
const store = new Map(), sessionStorage = { getItem: (k) => store.get(k) ?? null, setItem: (k, v) => store.set(k, v) };
const document = { getElementById: (id) => (id === "app" ? app : null), createElement: (tag) => new Node(tag), title: "" };
async function fetch(url, opt = {}) {
  if (new URL(url).origin !== origin) throw new Error(`a request to ${url}`);
  const path = new URL(url).pathname;
  if (path.endsWith("/openapi.json")) {
    const given = opt.headers.Authorization;
    if (opt.method) sent.push([opt.method, path]);
    if (scene === "/keys/docs" && given !== "Bearer " + key) return new Response('{"success":false,"error":"a credential is needed"}', { status: 401 });
    if (scene === "/several/docs" || (scene === "/servers/one/docs" && path === "/openapi.json"))
      return new Response(JSON.stringify({ success: false, error: "several", meta: { cause: { data: { code: "server_unknown", servers } } } }), { status: 404 });
    const query = new URL(url).searchParams, offset = Number(query.get("offset") || 0);
    if (new URL(url).search) parts.push(new URL(url).search);
    const doc = JSON.parse(readFileSync(dir + "/openapi.json"));
    if (scene === "/many/docs") doc.info["x-tools"] = query.get("match") ? { offset, count: 0, total: 0 } : { offset, count: 1000, total: 2000 };
    return new Response(JSON.stringify(doc));
  }
  if (scene === "/keys/docs" && opt.headers.Authorization !== "Bearer " + key) throw new Error("a call without the key");
  sent.push([opt.method, path]);
  if (opt.body) JSON.parse(opt.body);
  return new Response('{"success":true}', { headers: { "Content-Type": "application/json" } });
}
const settle = () => new Promise((r) => setImmediate(r));
vm.runInNewContext(readFileSync(dir + "/page.js", "utf8"), { document, location: Object.assign(new URL(origin + scene), { assign: (to) => went.push(String(to)) }),
  navigator: { clipboard: { writeText: async (line) => copied.push(line) } }, sessionStorage, fetch, URL, AbortController, TextDecoder, addEventListener() {} });
const wait = async () => { for (let i = 0; i < 20; i++) await settle(); };
await wait();
if (scene === "/keys/docs") {
  console.log("before:", app.text);
  const field = all.find((n) => n.tag === "input" && n.props.type === "password");
  field.value = " " + key + " ";
  field.on.change();
  await wait();
}
for (const n of all.filter((n) => n.tag === "select")) {
  const options = n.kids.map((k) => k.props.value + (k.props.selected ? "*" : ""));
  n.value = servers[1];
  n.on.change();
  console.log("servers:", JSON.stringify(options), "to", went.pop());
}
if (scene === "/many/docs") {
  const press = async (text) => { const b = all.filter((n) => n.tag === "button" && n.props.textContent === text).pop(); if (!b.props.disabled) b.on.click(); await wait(); console.log(text, !b.props.disabled, app.text.slice(0, 200)); };
  await press("First tools");
  await press("Next tools");
  await press("Next tools");
  const find = all.filter((n) => n.props.type === "search").pop();
  find.value = " a&b ";
  find.on.change();
  await wait();
  console.log(app.text.slice(0, 200));
  await press("Next tools");
  console.log("parts:", JSON.stringify(parts));
  process.exit(0);
}
if (scene === "/several/docs") { console.log(app.text); process.exit(0); }
for (const n of [...all]) if (n.on.toggle) { n.props.open = true; n.on.toggle(); }
for (const n of [...all]) if (n.props.textContent === "Send") await n.on.click();
for (const n of [...all]) if (n.props.textContent === "Copy as curl") await n.on.click();
console.log(document.title, app.text);
for (const [method, path] of sent) console.log(method, path, 200);
for (const line of copied) console.log(line);
if (copied.length !== sent.length) throw new Error(`${copied.length} lines of curl for ${sent.length} requests`);
if (copied.some((line) => line.includes(key))) throw new Error("a key is copied");
if (sent.length < 10) throw new Error(`only ${sent.length} requests`);
