#!/usr/bin/env python3
"""packages.py npm|wheel OS ARCH TREE DIRECTORY: makes the package for a system, GOOS and GOARCH, in DIRECTORY, and prints its file name.
packages.py npm TREE DIRECTORY: makes the npm package of the launcher, which depends on those of all systems in TARGETS.
TREE is what release.sh puts into an archive. SEMVER, TARGETS, SOURCE_DATE_EPOCH and the names in names.sh are read from the environment.
The same files make the same packages. Standard library only."""

import base64
import hashlib
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile

import archive

SUMMARY = "Proxy that lets any MCP client use any MCP server"
HERE = pathlib.Path(__file__).parent
# The binary is static, so it runs with glibc and musl. macOS 12 is the first that Go 1.26 supports.
TAGS = {
    "linux": ["manylinux_2_17_{}", "manylinux2014_{}", "musllinux_1_1_{}"],
    "darwin": ["macosx_12_0_{}"],
    "windows": ["win_{}"],
}
MACHINES = {"linux": {"amd64": "x86_64", "arm64": "aarch64"}, "darwin": {"amd64": "x86_64", "arm64": "arm64"}, "windows": {"amd64": "amd64", "arm64": "arm64"}}
NODE_OS, NODE_CPU = {"windows": "win32"}, {"amd64": "x64"}


def setting(name):
    if not os.environ.get(name):
        raise SystemExit(f"packages.py: {name} is not set; fix: run deploy/release.sh, which sets it")
    return os.environ[name]


def semver():
    """The version as npm writes it."""
    return setting("SEMVER")


def pep440():
    """The version as Python writes it (PEP 440): 1.2.3, 1.2.3rc1 of 1.2.3-rc.1, and 1.2.3.dev0+x of any other 1.2.3-x."""
    base, _, pre = semver().partition("-")
    base, _, build = base.partition("+")
    known = re.fullmatch(r"(alpha|beta|rc)\.?(\d+)", pre)
    local = "" if known else pre
    if known:
        base += {"alpha": "a", "beta": "b", "rc": "rc"}[known[1]] + known[2]
    elif pre:
        base += ".dev0"
    local = re.sub(r"[^a-z0-9]+", ".", ".".join(filter(None, [local, build])).lower()).strip(".")
    return f"{base}+{local}" if local else base


def described(command):
    text = (HERE / "packages.md").read_text()
    return text.replace("@RUN@", command).replace("@HOMEPAGE@", setting("HOMEPAGE"))


def npm_name(system, arch):
    return f"{setting('NPM_NAME')}-{NODE_OS.get(system, system)}-{NODE_CPU.get(arch, arch)}"


def npm_pack(package, tree, out):
    """Writes package.json and the tree as npm does: below package/."""
    about = {"version": semver(), "license": "Apache-2.0", "homepage": setting("HOMEPAGE"), **package}
    (tree / "package.json").write_text(json.dumps(about, indent=2) + "\n")
    name = f"{about['name'].removeprefix('@').replace('/', '-')}-{about['version']}.tgz"
    archive.write(tree, out / name, "package")
    return name


def npm(system, arch, tree, work, out):
    binary = "dragoman.exe" if system == "windows" else "dragoman"
    place(tree / binary, work / "bin" / binary)
    place(tree / "LICENSE", work / "LICENSE")
    place(tree / "dragoman.cdx.json", work / "dragoman.cdx.json")
    (work / "README.md").write_text(f"The binary of {setting('NPM_NAME')} for {system} on {arch}.\n")
    return npm_pack({
        "name": npm_name(system, arch),
        "description": f"The binary of {setting('NPM_NAME')} for {system} on {arch}",
        "os": [NODE_OS.get(system, system)], "cpu": [NODE_CPU.get(arch, arch)],
        "preferUnplugged": True,  # Yarn keeps packages zipped, and what is zipped cannot be run
    }, work, out)


def npm_main(tree, work, out):
    targets = [t.split("/") for t in setting("TARGETS").split()]
    place(HERE / "npm" / "dragoman.js", work / "bin" / "dragoman.js")
    place(tree / "LICENSE", work / "LICENSE")
    pages = sorted(p.name for p in (tree / "man").iterdir())
    for page in pages:
        place(tree / "man" / page, work / "man" / page)
    (work / "README.md").write_text("# Dragoman\n\n" + described(f"npx {setting('NPM_NAME')}"))
    return npm_pack({
        "name": setting("NPM_NAME"), "description": SUMMARY, "keywords": ["mcp", "model-context-protocol", "proxy", "gateway"],
        "bin": {"dragoman": "bin/dragoman.js"}, "man": [f"./man/{p}" for p in pages], "engines": {"node": ">=18"},
        "optionalDependencies": {npm_name(*t): semver() for t in targets},
    }, work, out)


def wheel(system, arch, tree, work, out):
    name, version = re.sub(r"[-_.]+", "_", setting("PYPI_NAME")).lower(), pep440()
    tags = [t.format(MACHINES[system][arch]) for t in TAGS[system]]
    info, data = work / f"{name}-{version}.dist-info", work / f"{name}-{version}.data"
    binary = "dragoman.exe" if system == "windows" else "dragoman"
    place(tree / binary, data / "scripts" / binary)
    if system != "windows":
        shared = data / "data" / "share"
        for page in (tree / "man").iterdir():
            place(page, shared / "man" / "man1" / page.name)
        for file, where in {"dragoman.bash": "bash-completion/completions/dragoman", "_dragoman": "zsh/site-functions/_dragoman", "dragoman.fish": "fish/vendor_completions.d/dragoman.fish"}.items():
            place(tree / "completions" / file, shared / where)
    place(tree / "LICENSE", info / "licenses" / "LICENSE")  # PEP 639
    place(tree / "dragoman.cdx.json", info / "sboms" / "dragoman.cdx.json")  # PEP 770
    (info / "METADATA").write_text("\n".join([
        "Metadata-Version: 2.4", f"Name: {setting('PYPI_NAME')}", f"Version: {version}", f"Summary: {SUMMARY}",
        "License-Expression: Apache-2.0", "License-File: LICENSE", f"Project-URL: Homepage, {setting('HOMEPAGE')}", "Requires-Python: >=3.8",
        "Description-Content-Type: text/markdown", "", described(f"uvx --from {setting('PYPI_NAME')} dragoman")]))
    (info / "WHEEL").write_text("\n".join(["Wheel-Version: 1.0", "Generator: deploy/packages.py", "Root-Is-Purelib: false", *(f"Tag: py3-none-{t}" for t in tags), ""]))
    record = info / "RECORD"
    rows = []
    for path in sorted(p for p in work.rglob("*") if p.is_file()):
        sum256 = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
        rows.append(f"{path.relative_to(work).as_posix()},sha256={sum256},{path.stat().st_size}\n")
    record.write_text("".join(rows) + f"{record.relative_to(work).as_posix()},,\n")
    file = f"{name}-{version}-py3-none-{'.'.join(tags)}.whl"
    archive.write(work, out / file, "")
    return file


def place(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def main(args):
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        match args:
            case ["npm", tree, out]:
                print(npm_main(pathlib.Path(tree), work, pathlib.Path(out)))
            case ["npm" | "wheel" as kind, system, arch, tree, out]:
                print({"npm": npm, "wheel": wheel}[kind](system, arch, pathlib.Path(tree), work, pathlib.Path(out)))
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
