// page.mjs DIR: runs page.js of DIR with its openapi.json in a document tree that knows elements and text only, opens everything,
// sends every form, and prints what is shown. Fails where a property is set that could make markup or code of a string.
import { readFileSync } from "node:fs";
import vm from "node:vm";
const dir = process.argv[2], origin = "http://127.0.0.1:1";
const plain = new Set(["textContent", "className", "value", "spellcheck", "ariaLabel", "type", "autocomplete", "hidden", "disabled", "checked", "open", "id", "href"]);
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
const app = new Node("main"), sent = [];
const document = { getElementById: (id) => (id === "app" ? app : null), createElement: (tag) => new Node(tag), title: "" };
async function fetch(url, opt = {}) {
  if (new URL(url).origin !== origin) throw new Error(`a request to ${url}`);
  const path = new URL(url).pathname;
  if (path === "/openapi.json") return new Response(readFileSync(dir + path));
  sent.push([opt.method, path]);
  if (opt.body) JSON.parse(opt.body);
  return new Response('{"success":true}', { headers: { "Content-Type": "application/json" } });
}
const settle = () => new Promise((r) => setImmediate(r));
vm.runInNewContext(readFileSync(dir + "/page.js", "utf8"), { document, location: new URL(origin + "/docs"), fetch, URL, AbortController, TextDecoder, addEventListener() {} });
for (let i = 0; i < 10; i++) await settle();
for (const n of [...all]) if (n.on.toggle) { n.props.open = true; n.on.toggle(); }
for (const n of [...all]) if (n.props.textContent === "Send") await n.on.click();
console.log(document.title, app.text);
for (const [method, path] of sent) console.log(method, path, 200);
if (sent.length < 10) throw new Error(`only ${sent.length} requests`);
