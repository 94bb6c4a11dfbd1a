// Writes whatwg.json: what Node's WHATWG URL makes of spellings. Run it in this folder: node whatwg.mjs > whatwg.json
// With the argument "lines" it answers each line of its input, a JSON string, with the normal form as a JSON string, or null.
import { createInterface } from "node:readline";

const normal = (text) => {
  try {
    return new URL(text).href;
  } catch {
    return null;
  }
};

if (process.argv[2] === "lines") {
  for await (const line of createInterface({ input: process.stdin })) console.log(JSON.stringify(normal(JSON.parse(line))));
} else {
  const bases = [
    "demo://secret/a", "demo://Secret/A", "demo:/secret/a", "demo:secret/a", "demo:///secret/a", "demo://u:p@host:80/a/b?q=1#f", "demo://host", "urn:isbn:1",
    "http://host/a", "http://host", "https://host:443/a?b#c", "http://u:p@host:8080/a b", "http://b\u00fccher.example/", "http://127.0.0.1/a", "http://[::1]/a",
    "file:///srv/a", "file:/srv/a", "file://host/a", "file:///C:/a", "ws://host:80/", "ftp://host:21/a", "memo://insights", "note://100%/a", "x-y+z.1://h/a",
    "demo://[2001:DB8::1]/a", "demo://h/{id}", "demo://h/a|b^c`d", "http://h/?a='b'", "demo://h?q", "demo://h#f", "mailto:a@b", "data:,a b",
  ];
  const ways = [
    (s) => s.toUpperCase(),
    (s) => s.replace(/^[a-z]+/, (c) => c.toUpperCase()),
    (s) => s.replace(/\/\/([^/?#]*)/, (c) => c.toUpperCase()),
    (s) => s.replaceAll("a", "%61"),
    (s) => s.replaceAll("e", "%65"),
    (s) => s.replaceAll("/", "\\"),
    (s) => s.replaceAll("/", "%2f"),
    (s) => s.replace(/\/([^/]*)$/, "/./$1"),
    (s) => s.replace(/\/([^/]*)$/, "/x/../$1"),
    (s) => s.replace(/\/([^/]*)$/, "/x/%2e%2E/$1"),
    (s) => s.replace(/\/([^/]*)$/, "/x/.%2e/$1"),
    (s) => s.replace(/\/([^/]*)$/, "/%2e/$1"),
    (s) => s.replace(/\/([^/]*)$/, "\\..\\$1"),
    (s) => " " + s, (s) => s + " ", (s) => "\u0000" + s, (s) => s + "\u001f", (s) => "\u00a0" + s, (s) => "\ufeff" + s,
    (s) => s.slice(0, 3) + "\t" + s.slice(3), (s) => s.slice(0, 9) + "\n" + s.slice(9), (s) => s + "\r",
    (s) => s.replace("://", ":"), (s) => s.replace("://", ":/"), (s) => s.replace("://", ":///"), (s) => s.replace("://", ":\\\\"),
    (s) => s.replace("://", "://@"), (s) => s.replace("://", "://:@"), (s) => s.replace("://", "://x@"), (s) => s.replace("://", "://x:@"), (s) => s.replace("://", "://x;y=z@y@"),
    (s) => s.replace(/(\/\/[^/?#]*)/, "$1:"), (s) => s.replace(/(\/\/[^/?#:]*)/, "$1:80"), (s) => s.replace(/(\/\/[^/?#:]*)/, "$1:0080"), (s) => s.replace(/(\/\/[^/?#:]*)/, "$1:00"),
    (s) => s.replace(/(\/\/[^/?#:]*)/, "$1."), (s) => s.replace(/\/\/[^/?#:]*/, "//localhost"), (s) => s.replace(/\/\/[^/?#:]*/, "//LOCALHOST"),
    (s) => s + "?", (s) => s + "#", (s) => s + "/", (s) => s + "//", (s) => s + "/..", (s) => s + "/%2E", (s) => s + "%", (s) => s + "%zz", (s) => s + "%7e", (s) => s + "%7E", (s) => s + "~",
    (s) => s + "'", (s) => s + "%27", (s) => s + "\"<>", (s) => s + "%22%3c%3E", (s) => s + "\u00e9", (s) => s + "%c3%a9", (s) => s + "e\u0301", (s) => s + "\ud83d\ude00", (s) => s + "%F0%9F%98%80",
    (s) => s.replace("host", "h\u00ad\uff4fst"), (s) => s.replace("host", "%68ost"), (s) => s.replace("host", "h%C2%ADost"), (s) => s.replace("host", "xn--hst-"), (s) => s.replace("host", "h\u3002st"),
    (s) => s.replace("b\u00fccher", "xn--bcher-kva"), (s) => s.replace("b\u00fccher", "B\u00dcCHER"), (s) => s.replace("b\u00fccher", "bu\u0308cher"), (s) => s.replace("b\u00fccher", "b%C3%BCcher"),
    (s) => s.replace("127.0.0.1", "0x7f.1"), (s) => s.replace("127.0.0.1", "2130706433"), (s) => s.replace("127.0.0.1", "127.0.0.1."), (s) => s.replace("127.0.0.1", "0177.0.0.1"),
    (s) => s.replace("[::1]", "[0:0:0:0:0:0:0:1]"), (s) => s.replace("[::1]", "[::0.0.0.1]"), (s) => s.replace("[2001:DB8::1]", "[2001:db8:0::1]"),
    (s) => s.replace("C:", "c|"), (s) => s.replace("C:", "C|"), (s) => s.replace("///C:", "//C:"), (s) => s.replace("{id}", "%7Bid%7d"), (s) => s.replace("|b^c`d", "%7Cb%5Ec%60d"),
  ];
  const seen = new Map();
  for (const base of bases) {
    seen.set(base, normal(base));
    ways.forEach((one, i) => {
      const first = one(base);
      const twice = ways.filter((_, k) => (i + k) % 13 === 0).map((two) => two(first)); // some pairs of all
      for (const text of [first, ...twice]) seen.set(text, normal(text));
    });
  }
  // A list of the normal form and its spellings; spellings that are no URL are left out.
  const groups = new Map();
  for (const [text, href] of seen) if (href !== null && text.isWellFormed()) groups.set(href, [...(groups.get(href) ?? []), text]);
  const some = [...groups].filter(([, all]) => all.length > 1).map(([href, all]) => [href, ...all]);
  console.log("[\n" + some.map((group) => JSON.stringify(group)).join(",\n") + "\n]");
}
